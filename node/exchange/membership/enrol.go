package membership

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
)

// Enrol asks to become a worker. Neither the invitation's token nor the worker's secret is in it, nor in the answer:
// who hears both, on a NATS cluster whose users may listen, learns nothing that it could use. The worker makes its
// secret itself and sends what the registry keeps of it, its hash; that it holds an invitation it proves. The same
// question again, the asker's or a listener's, gets the same answer and makes no other worker.
type Enrol struct {
	Protocol int    `json:"protocol"`
	Name     string `json:"name"`  // wished for; another worker's gets a number after it; empty: the invitation's
	Hash     string `json:"hash"`  // sha256 of the secret, hexadecimal
	Proof    string `json:"proof"` // HMAC-SHA256 under the token, hexadecimal, of all of the above
}

// Enrolled is the answer. Its proof says that it comes from one who knows the invitation, for this question.
type Enrolled struct {
	Worker string `json:"worker"`
	Proof  string `json:"proof"`
}

// Credentials are a worker's own. The registry keeps the secret's hash.
type Credentials struct {
	Worker string `json:"worker"`
	Secret string `json:"secret"`
}

// Application is the asker's side of an enrolment.
type Application struct {
	Enrol  Enrol
	token  string
	secret string
}

// Apply makes an application with an invitation's token. It may be sent any number of times.
func Apply(token, name string) Application {
	a := Application{token: token, secret: secret(32)}
	a.Enrol = Enrol{Protocol: Protocol, Name: name, Hash: hashOf(a.secret)}
	a.Enrol.Proof = a.Enrol.proof(token)
	return a
}

// Accept makes credentials of the answer.
func (a Application) Accept(answer Enrolled) (Credentials, error) {
	if checkWorker(answer.Worker) != nil || !hmac.Equal([]byte(answer.Proof), []byte(a.Enrol.confirmation(a.token, answer.Worker))) {
		return Credentials{}, Refuse(CodeToken, "the coordinator that answered does not know the invitation. Try: ask for a new one (swarm workers invite)")
	}
	if wished := a.Enrol.Name; wished != "" && !isNumbered(answer.Worker, wished) {
		return Credentials{}, &AnswerError{"enrol", fmt.Sprintf("it calls this worker %s, and %s was asked for", answer.Worker, wished)}
	}
	return Credentials{Worker: answer.Worker, Secret: a.secret}, nil
}

// accept answers the question.
func (e Enrol) accept(token, worker string) Enrolled {
	return Enrolled{Worker: worker, Proof: e.confirmation(token, worker)}
}

// check holds a question to its bounds.
func (e Enrol) check() *Refusal {
	for _, sum := range []string{e.Hash, e.Proof} {
		if len(sum) != hex.EncodedLen(sha256.Size) || !plain(sum, "") {
			return Refuse(CodeMalformed, "an enrolment without a hash and a proof of %d hexadecimal digits", hex.EncodedLen(sha256.Size))
		}
		if _, err := hex.DecodeString(sum); err != nil {
			return Refuse(CodeMalformed, "an enrolment whose hash or proof is not hexadecimal")
		}
	}
	if len(e.Name) > MaxTextBytes {
		return Refuse(CodeMalformed, "a name of %d bytes", len(e.Name))
	}
	return nil
}

// proves tells in constant time whether who asks knows the token.
func (e Enrol) proves(token string) bool { return hmac.Equal([]byte(e.Proof), []byte(e.proof(token))) }

func (e Enrol) proof(token string) string {
	return seal(token, "swarm enrol", e.Protocol, e.Name, e.Hash)
}

func (e Enrol) confirmation(token, worker string) string {
	return seal(token, "swarm enrolled", e.Protocol, worker, e.Hash)
}

// seal is an HMAC-SHA256 under the token, which has 128 random bits: nobody finds it by trying.
func seal(token, what string, protocol int, name, hash string) string {
	mac := hmac.New(sha256.New, []byte(token))
	fmt.Fprintf(mac, "%s %d %q %q", what, protocol, name, hash)
	return hex.EncodeToString(mac.Sum(nil))
}

// hashOf is what the registry keeps of a secret. The secret has 256 random bits, so that a plain hash is enough.
func hashOf(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}
