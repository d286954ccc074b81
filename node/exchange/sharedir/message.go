package sharedir

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/sapo-swarm/swarm/node/exchange/membership"
)

// Verbs of messages. Beats are not answered one by one: only the newest of each side counts.
const (
	verbHello   = "hello"
	verbJoin    = "join"
	verbDeliver = "deliver"
	verbBeat    = "beat"
)

// Folders of a worker's messages. Each side writes and deletes in only one of them, so that no two machines change the
// same file.
const (
	up   = "up"   // the worker's
	down = "down" // the coordinator's
)

// maxEnvelope bounds a message, packed and unpacked, in bytes.
const maxEnvelope = membership.MaxMessageBytes + 4<<10

// letter is a message's file with the fields from its name: verb, session of the worker, and number within the session.
// Both numbers only grow, so that their order needs no clocks.
type letter struct {
	entry
	verb    string
	session int
	number  int64
}

// envelope is a message's content. Names and content can both be forged, so they must agree.
type envelope struct {
	Protocol int                 `json:"protocol"`
	Worker   string              `json:"worker"`
	Verb     string              `json:"verb"`
	Session  int                 `json:"session"`
	Number   int64               `json:"number"`
	Body     json.RawMessage     `json:"body,omitempty"`
	Refusal  *membership.Refusal `json:"refusal,omitempty"` // from the coordinator, instead of a body
}

func (e envelope) stem() string { return fmt.Sprintf("%s-%06d-%08d", e.Verb, e.Session, e.Number) }

func parseLetter(name string) (letter, bool) {
	e, ok := parseName(name)
	if !ok {
		return letter{}, false
	}
	parts := strings.Split(e.stem, "-")
	if len(parts) != 3 || len(parts[1]) != 6 || len(parts[2]) != 8 {
		return letter{}, false
	}
	session, err := strconv.Atoi(parts[1])
	if err != nil || session < 0 {
		return letter{}, false
	}
	number, err := strconv.ParseInt(parts[2], 10, 64)
	if err != nil || number < 0 {
		return letter{}, false
	}
	switch parts[0] {
	case verbHello, verbJoin, verbDeliver, verbBeat:
		return letter{entry: e, verb: parts[0], session: session, number: number}, true
	}
	return letter{}, false
}

// mailbox is one folder of a worker's messages.
type mailbox struct {
	tree   *tree
	worker string
	dir    string
}

func newMailbox(t *tree, run, worker, side string) mailbox {
	return mailbox{tree: t, worker: worker, dir: path.Join(runPath(run), workersPart, encode(worker), side)}
}

// maxLetters bounds the messages of a mailbox that one look opens, and those that it deletes. The next look continues.
const maxLetters = 512

// letters lists the messages of the mailbox in their order. It omits none below maxEntries: anyone who can write to the
// folder could hide a message behind planted ones.
func (m mailbox) letters() ([]letter, error) {
	names, err := m.tree.list(m.dir)
	if err != nil {
		return nil, err
	}
	var letters []letter
	for _, name := range names {
		if l, ok := parseLetter(name); ok {
			letters = append(letters, l)
		}
	}
	slices.SortFunc(letters, inOrder)
	return letters, nil
}

// inOrder compares two messages by session, number and name.
func inOrder(a, b letter) int {
	return cmp.Or(cmp.Compare(a.session, b.session), cmp.Compare(a.number, b.number), cmp.Compare(a.name, b.name))
}

// post writes a message durably and returns its file name.
func (m mailbox) post(e envelope, body any) (string, error) {
	e.Protocol, e.Worker = membership.Protocol, m.worker
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return "", err
		}
		if len(data) > membership.MaxMessageBytes {
			return "", membership.Refuse(membership.CodeMalformed, "a %s of %d bytes, more than %d", e.Verb, len(data), membership.MaxMessageBytes)
		}
		e.Body = data
	}
	data, err := json.Marshal(e)
	if err != nil {
		return "", err
	}
	return m.tree.put(m.dir, e.stem(), "json.zst", pack(data))
}

// open reads a message. It returns errPartial if the file is incomplete, and errUnpack if its content contradicts its
// name.
func (m mailbox) open(l letter) (envelope, error) {
	packed, err := m.tree.take(m.dir, l.entry, maxEnvelope)
	if err != nil {
		return envelope{}, err
	}
	return openEnvelope(packed, m.worker, l)
}

func openEnvelope(packed []byte, worker string, l letter) (envelope, error) {
	data, err := unpack(packed, maxEnvelope)
	if err != nil {
		return envelope{}, err
	}
	var e envelope
	if err := json.Unmarshal(data, &e); err != nil {
		return envelope{}, fmt.Errorf("%w: %.200s", errUnpack, err)
	}
	if e.Worker != worker || e.Verb != l.verb || e.Session != l.session || e.Number != l.number {
		return envelope{}, fmt.Errorf("%w: its content belongs to another message", errUnpack)
	}
	return e, nil
}

func (m mailbox) remove(name string) error { return m.tree.remove(path.Join(m.dir, name)) }

// tidy deletes the messages that aren't needed, up to maxLetters of them: those that the sync program restored, and
// their copies.
func (m mailbox) tidy(needed func(letter) bool) error {
	letters, err := m.letters()
	if err != nil {
		return err
	}
	removed := 0
	for _, l := range letters {
		if needed(l) {
			continue
		}
		if removed++; removed > maxLetters {
			return nil
		}
		if err := m.remove(l.name); err != nil {
			return err
		}
	}
	return nil
}
