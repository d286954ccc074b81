package membership

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/metrics/event"
)

// Kinds of an Entry.
const (
	KindWorker     = "worker"
	KindInvitation = "invitation"
)

// Entry is a worker or an invitation as `swarm workers` lists it. Times are Unix seconds.
type Entry struct {
	Name     string  `json:"name"`
	Kind     string  `json:"kind"` // one of Kind*
	Created  float64 `json:"created"`
	LastSeen float64 `json:"last_seen,omitempty"`
	Revoked  bool    `json:"revoked,omitempty"`
	Banned   string  `json:"banned,omitempty"` // the reason
	Once     bool    `json:"once,omitempty"`   // of an invitation: for one worker
	Used     bool    `json:"used,omitempty"`
	Host     string  `json:"host,omitempty"`

	Uses       int     `json:"uses,omitempty"`       // of an invitation: maximum workers; 0: no limit
	Workers    int     `json:"workers,omitempty"`    // of an invitation: workers enrolled so far
	Expires    float64 `json:"expires,omitempty"`    // 0: never
	Invitation string  `json:"invitation,omitempty"` // of a worker: the name of its invitation; empty: unknown
}

// standing names the invitation that `up` prints.
const standing = "invitation"

// Bounds of the registry's file.
const (
	registryVersion  = 1
	maxRegistryBytes = 8 << 20
	maxEntries       = 4 * MaxWorkers // of each kind, including revoked ones
)

// book is the content of the registry's file.
type book struct {
	Version     int          `json:"version"`
	Invitations []invited    `json:"invitations"`
	Workers     []registered `json:"workers"`

	byName map[string]int // index in Workers by the name in lower case, because folder names may ignore case
	byHash map[string]int // index in Workers by the hash of the secret
}

// invited is an invitation. The file stores its token in plain text, because it is printed again.
type invited struct {
	Name    string  `json:"name"`
	Token   string  `json:"token"`
	Created float64 `json:"created"`
	Once    bool    `json:"once,omitempty"`
	Used    bool    `json:"used,omitempty"`
	Revoked bool    `json:"revoked,omitempty"`
	Uses    int     `json:"uses,omitempty"`    // maximum workers; 0: no limit, from an earlier version
	Expires float64 `json:"expires,omitempty"` // Unix seconds; 0: never
}

// id identifies an invitation without its token.
func (i *invited) id() string { return hashOf(i.Token)[:16] }

// registered is a worker.
type registered struct {
	Name       string  `json:"name"`
	Hash       string  `json:"hash"` // hashOf of its secret
	Created    float64 `json:"created"`
	Revoked    bool    `json:"revoked,omitempty"`
	Banned     string  `json:"banned,omitempty"`
	Invitation string  `json:"invitation,omitempty"` // invited.id; empty: from an earlier version
}

func decodeBook(data []byte) (*book, error) {
	b := &book{Version: registryVersion}
	if len(bytes.TrimSpace(data)) > 0 {
		if err := json.Unmarshal(data, b); err != nil {
			return nil, err
		}
	}
	switch {
	case b.Version != registryVersion:
		return nil, fmt.Errorf("its version is %d, this program reads %d", b.Version, registryVersion)
	case len(b.Invitations) > maxEntries || len(b.Workers) > maxEntries:
		return nil, fmt.Errorf("it has more than %d entries", maxEntries)
	}
	for _, i := range b.Invitations {
		if checkName("invitation", i.Name, maxWorkerBytes) != nil || i.Token == "" || !plain(i.Token, "-_") || len(i.Token) > maxTokenBytes {
			return nil, fmt.Errorf("invitation %.40q is damaged", i.Name)
		}
		if i.Uses < 0 || !(i.Expires >= 0) {
			return nil, fmt.Errorf("invitation %.40q is for %s, until %v", i.Name, units.Plural(i.Uses, "worker"), i.Expires)
		}
	}
	for _, w := range b.Workers {
		if sum, err := hex.DecodeString(w.Hash); err != nil || len(sum) != sha256.Size || checkName("worker", w.Name, maxWorkerBytes) != nil {
			return nil, fmt.Errorf("worker %.40q is damaged", w.Name)
		}
	}
	return b, b.index()
}

func (b *book) index() error {
	b.byName, b.byHash = make(map[string]int, len(b.Workers)), make(map[string]int, len(b.Workers))
	for i, w := range b.Workers {
		key := strings.ToLower(w.Name)
		if _, twice := b.byName[key]; twice {
			return errors.New("worker " + w.Name + " is listed twice")
		}
		b.byName[key], b.byHash[w.Hash] = i, i
	}
	return nil
}

func (b *book) clone() *book {
	c := &book{Version: b.Version, Invitations: append([]invited(nil), b.Invitations...), Workers: append([]registered(nil), b.Workers...)}
	_ = c.index() // the index of a valid book can't fail
	return c
}

// worker returns the worker with that name, nil if there is none.
func (b *book) worker(name string) *registered {
	if i, ok := b.byName[strings.ToLower(name)]; ok && b.Workers[i].Name == name {
		return &b.Workers[i]
	}
	return nil
}

// invitation returns the invitation whose token the request proves, nil if there is none. It compares with all of them,
// each in constant time.
func (b *book) invitation(e Enrol) *invited {
	var found *invited
	for i := range b.Invitations {
		if e.proves(b.Invitations[i].Token) {
			found = &b.Invitations[i]
		}
	}
	return found
}

// enrolled returns the worker that the same request created earlier, nil if there is none.
func (b *book) enrolled(e Enrol) *registered {
	if i, ok := b.byHash[e.Hash]; ok {
		return &b.Workers[i]
	}
	return nil
}

// brought returns the number of listed workers that an invitation has admitted.
func (b *book) brought(i *invited) (n int) {
	id := i.id()
	for _, w := range b.Workers {
		if w.Invitation == id {
			n++
		}
	}
	return n
}

// open returns nil if an invitation admits workers, otherwise the refusal.
func (b *book) open(i *invited, now float64) *Refusal {
	switch {
	case i.Expires > 0 && now >= i.Expires:
		return Refuse(CodeToken, "the invitation has expired. Try: ask for a new one (swarm workers invite)")
	case !i.Once && i.Uses > 0 && b.brought(i) >= i.Uses:
		return Refuse(CodeFull, "the invitation has admitted its maximum of %s. Try: ask for a new one (swarm workers invite)", units.Plural(i.Uses, "worker"))
	case i.Revoked:
		return Refuse(CodeToken, "the invitation was revoked. Try: ask for a new one (swarm workers invite)")
	case i.Once && i.Used:
		return Refuse(CodeToken, "the invitation was for one worker and has been used. Try: ask for a new one (swarm workers invite)")
	}
	return nil
}

// register adds a worker for a request with the invitation, and returns its name.
func (b *book) register(e Enrol, i *invited) (worker string, refusal *Refusal) {
	name := e.Name
	switch {
	case name != "":
	case i.Name != standing:
		name = i.Name
	default:
		name = "worker"
	}
	if refusal := checkWorker(name); refusal != nil {
		return "", refusal
	}
	if active(b) >= MaxWorkers || len(b.Workers) >= maxEntries {
		return "", Refuse(CodeFull, "this swarm has its maximum of %d workers. Try: swarm workers revoke NAME, on the coordinator", MaxWorkers)
	}
	worker = numbered(name, func(n string) bool { _, taken := b.byName[strings.ToLower(n)]; return taken })
	b.Workers = append(b.Workers, registered{Name: worker, Hash: e.Hash, Created: event.Now(), Invitation: i.id()})
	i.Used = true
	return worker, nil
}

// proves reports in constant time whether secret is the worker's. For a nil worker it takes as long and returns false.
func (w *registered) proves(secret string) bool {
	stored := make([]byte, sha256.Size)
	if w != nil {
		sum, _ := hex.DecodeString(w.Hash) // checked when the book was decoded
		copy(stored, sum)
	}
	given := sha256.Sum256([]byte(secret))
	return subtle.ConstantTimeCompare(stored, given[:]) == 1 && w != nil
}

// standing returns the refusal of a worker that was banned or revoked, otherwise nil.
func (w *registered) standing() *Refusal {
	switch {
	case w == nil:
		return nil
	case w.Banned != "":
		return Refuse(CodeBanned, "worker %s was banned: %s. Try: ask the coordinator's owner", w.Name, w.Banned)
	case w.Revoked:
		return Refuse(CodeRevoked, "worker %s's credentials were revoked. Try: ask the coordinator's owner for a new invitation", w.Name)
	}
	return nil
}
