package natsbus

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// maxNameBytes bounds the names of a run and a node. The encoded name of a stream must be a legal file name.
const maxNameBytes = 64

// Subjects of a run. JetStream stores batches under rollouts. After storing a batch it announces it under shared,
// without its payload.
//
//	swarm.<run>.rollouts.<round>.<node>
//	swarm.<run>.shared.<round>.<node>
//
// A node requests missing batches under want and reports problems with the stream under trouble. Neither is stored. The
// server tests the stream under probe.
//
//	swarm.<run>.want.<round>.<node>
//	swarm.<run>.trouble
//	swarm.<run>.probe
type subjects struct {
	stream string // the stream's name
	prefix string // swarm.<run>
}

func newSubjects(run string) (subjects, error) {
	if err := checkName("run", run); err != nil {
		return subjects{}, err
	}
	name := token(run)
	if name == "w" {
		name = "=77" // swarm.w is reserved for workers
	}
	return subjects{stream: "swarm-" + name, prefix: "swarm." + name}, nil
}

func (s subjects) rollouts(round int, node string) string {
	return s.prefix + ".rollouts." + strconv.Itoa(round) + "." + token(node)
}

// anyRound matches a node's batches of all rounds.
func (s subjects) anyRound(node string) string { return s.prefix + ".rollouts.*." + token(node) }

func (s subjects) anyRollouts() string { return s.prefix + ".rollouts.*.*" }

// direct returns the subject on which JetStream answers queries of the stream.
func (s subjects) direct() string { return "$JS.API.DIRECT.GET." + s.stream }

func (s subjects) shared(round int, node string) string {
	return s.prefix + ".shared." + strconv.Itoa(round) + "." + token(node)
}

func (s subjects) anyShared(round int) string {
	return s.prefix + ".shared." + strconv.Itoa(round) + ".*"
}

func (s subjects) want(round int, node string) string {
	return s.prefix + ".want." + strconv.Itoa(round) + "." + token(node)
}

func (s subjects) anyWant() string { return s.prefix + ".want.*.*" }
func (s subjects) trouble() string { return s.prefix + ".trouble" }
func (s subjects) probe() string   { return s.prefix + ".probe" }

// wanted parses a want subject into its round and the node's token.
func (s subjects) wanted(subject string) (round int, nodeToken string, ok bool) {
	text, nodeToken, ok := strings.Cut(strings.TrimPrefix(subject, s.prefix+".want."), ".")
	round, err := strconv.Atoi(text)
	return round, nodeToken, ok && err == nil && round >= 0
}

// roundToken returns the round's token of a rollouts subject.
func (s subjects) roundToken(subject string) string {
	round, _, _ := strings.Cut(strings.TrimPrefix(subject, s.prefix+".rollouts."), ".")
	return round
}

func checkName(what, name string) error {
	if name == "" {
		return errors.New("the " + what + " has no name")
	}
	if len(name) > maxNameBytes {
		return fmt.Errorf("%s name %.20q...: %d bytes, at most %d", what, name, len(name), maxNameBytes)
	}
	return nil
}

// token encodes a name as a subject token: letters, digits, _ and - stay, any other byte becomes = and two hexadecimal
// digits. Different names give different tokens.
func token(name string) string {
	var t strings.Builder
	for i := range len(name) {
		switch c := name[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '_', c == '-':
			t.WriteByte(c)
		default:
			fmt.Fprintf(&t, "=%02X", c)
		}
	}
	return t.String()
}
