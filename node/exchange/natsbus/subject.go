package natsbus

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// maxNameBytes bounds a run's and a node's name: encoded, a stream's name must stay a legal file name.
const maxNameBytes = 64

// Subjects of a run. Batches are stored under rollouts; JetStream announces each under shared once it is stored,
// without its payload.
//
//	swarm.<run>.rollouts.<round>.<node>
//	swarm.<run>.shared.<round>.<node>
//
// What a node misses it asks for under want, and what goes wrong with the stream it tells under trouble; neither is
// stored. The server tries the stream under probe.
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
		name = "=77" // swarm.w is the workers'
	}
	return subjects{stream: "swarm-" + name, prefix: "swarm." + name}, nil
}

func (s subjects) rollouts(round int, node string) string {
	return s.prefix + ".rollouts." + strconv.Itoa(round) + "." + token(node)
}

// anyRound is a node's batches.
func (s subjects) anyRound(node string) string { return s.prefix + ".rollouts.*." + token(node) }

func (s subjects) anyRollouts() string { return s.prefix + ".rollouts.*.*" }

// direct is where JetStream answers queries of the stream.
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

// token makes a subject token of a name: letters, digits, _ and - stay, any other byte becomes = and two hexadecimal
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
