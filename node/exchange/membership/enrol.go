package membership

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
)

// Enrol is a request to become a worker. Neither the request nor the answer contains the invitation's token or the
// worker's secret. So a client that overhears both, on a NATS cluster with open subscriptions, learns nothing useful.
// The worker generates its secret and sends only the hash, which the registry keeps. The proof shows that the worker
// has the invitation. A repeated request, from the worker or an eavesdropper, gets the same answer and creates no other
// worker.
type Enrol struct {
	Protocol int    `json:"protocol"`
	Name     string `json:"name"`  // wished for; if another worker has it, a number is appended; empty: the invitation's
	Hash     string `json:"hash"`  // SHA-256 of the secret, hexadecimal
	Proof    string `json:"proof"` // HMAC-SHA256 of the fields above under the token, hexadecimal
}

// Enrolled is the answer. Its proof shows that the sender has the invitation and answers this request.
type Enrolled struct {
	Worker string `json:"worker"`
	Proof  string `json:"proof"`
}

// Credentials are a worker's name and secret. The registry keeps only the secret's hash.
type Credentials struct {
	Worker string `json:"worker"`
	Secret string `json:"secret"`
}

// Application is the worker's side of an enrolment.
type Application struct {
	Enrol  Enrol
	token  string
	secret string
}

// Apply creates an application with an invitation's token. It may be sent any number of times.
func Apply(token, name string) Application {
	a := Application{token: token, secret: secret(32)}
	a.Enrol = Enrol{Protocol: Protocol, Name: name, Hash: hashOf(a.secret)}
	a.Enrol.Proof = a.Enrol.proof(token)
	return a
}

// Accept returns the credentials if the answer is valid.
func (a Application) Accept(answer Enrolled) (Credentials, error) {
	if checkWorker(answer.Worker) != nil || !hmac.Equal([]byte(answer.Proof), []byte(a.Enrol.confirmation(a.token, answer.Worker))) {
		return Credentials{}, Refuse(CodeToken, "the coordinator that answered does not know the invitation. Try: ask for a new one (swarm workers invite)")
	}
	if wished := a.Enrol.Name; wished != "" && !isNumbered(answer.Worker, wished) {
		return Credentials{}, &AnswerError{"enrol", fmt.Sprintf("it names this worker %s instead of %s", answer.Worker, wished)}
	}
	return Credentials{Worker: answer.Worker, Secret: a.secret}, nil
}

// accept returns the answer to the request.
func (e Enrol) accept(token, worker string) Enrolled {
	return Enrolled{Worker: worker, Proof: e.confirmation(token, worker)}
}

// check checks the request against its bounds.
func (e Enrol) check() *Refusal {
	for _, sum := range []string{e.Hash, e.Proof} {
		if len(sum) != hex.EncodedLen(sha256.Size) || !plain(sum, "") {
			return Refuse(CodeMalformed, "an enrollment without a hash and a proof of %d hexadecimal digits", hex.EncodedLen(sha256.Size))
		}
		if _, err := hex.DecodeString(sum); err != nil {
			return Refuse(CodeMalformed, "an enrollment whose hash or proof is not hexadecimal")
		}
	}
	if len(e.Name) > MaxTextBytes {
		return Refuse(CodeMalformed, "a name of %d bytes", len(e.Name))
	}
	return nil
}

// proves reports in constant time whether the sender has the token.
func (e Enrol) proves(token string) bool { return hmac.Equal([]byte(e.Proof), []byte(e.proof(token))) }

func (e Enrol) proof(token string) string {
	return seal(token, "swarm enrol", e.Protocol, e.Name, e.Hash)
}

func (e Enrol) confirmation(token, worker string) string {
	return seal(token, "swarm enrolled", e.Protocol, worker, e.Hash)
}

// seal returns an HMAC-SHA256 under the token. The token has 128 random bits, so it can't be guessed.
func seal(token, what string, protocol int, name, hash string) string {
	mac := hmac.New(sha256.New, []byte(token))
	fmt.Fprintf(mac, "%s %d %q %q", what, protocol, name, hash)
	return hex.EncodeToString(mac.Sum(nil))
}

// hashOf returns the hash that the registry keeps of a secret. The secret has 256 random bits, so a plain hash is
// enough.
func hashOf(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}
