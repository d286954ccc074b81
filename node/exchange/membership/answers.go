package membership

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/node/protocol"
)

// Bounds of a coordinator's answers. A worker rejects answers beyond them.
const (
	maxRunBytes        = 128
	maxExperimentBytes = 64
	maxMemberBytes     = 64 // a node in the roster: other programs' names may be longer than swarm's
	maxInputs          = 128
	maxRound           = 99_999_999
	maxEvaluated       = 1 << 17
	maxRetryAfter      = 300 // seconds
)

// AnswerError reports a coordinator's answer that breaks the rules of the protocol. The worker uses nothing of that
// answer.
type AnswerError struct {
	To  string // the request: enrol, hello, join, beat
	Why string
}

func (e *AnswerError) Error() string {
	return "the coordinator's answer to " + e.To + " is not valid: " + e.Why +
		". Try: the same version of swarm on both hosts. If the versions agree, do not trust this coordinator"
}

// Checked returns an Uplink that rejects invalid answers of the coordinator with an *AnswerError. Names must be valid,
// unique and as requested. Numbers must be within bounds. Texts must be printable on a terminal. experiment is the
// requested experiment, empty for any.
func Checked(to Uplink, worker, experiment string) Uplink {
	return &checkedUplink{to: to, worker: worker, experiment: experiment}
}

type checkedUplink struct {
	to                 Uplink
	worker, experiment string
}

func (c *checkedUplink) Close() error { return c.to.Close() }

func (c *checkedUplink) Hello(ctx context.Context, hello Hello) (Welcome, error) {
	w, err := c.to.Hello(ctx, hello)
	if err != nil {
		return Welcome{}, refusalChecked(err)
	}
	if err := w.check(c.experiment); err != nil {
		return Welcome{}, &AnswerError{"hello", err.Error()}
	}
	w.Version = Tidy(w.Version, maxExperimentBytes)
	return w, nil
}

func (c *checkedUplink) Join(ctx context.Context, join Join) (Joined, error) {
	j, err := c.to.Join(ctx, join)
	if err != nil {
		return Joined{}, refusalChecked(err)
	}
	err = checkAssignments(c.worker, join.Nodes, j.Assignments)
	if err == nil {
		err = j.Roster.check()
	}
	if err != nil {
		return Joined{}, &AnswerError{"join", err.Error()}
	}
	return j, nil
}

func (c *checkedUplink) Beat(ctx context.Context, beat Beat) (Roster, error) {
	r, err := c.to.Beat(ctx, beat)
	if err != nil {
		return Roster{}, refusalChecked(err)
	}
	if err := r.check(); err != nil {
		return Roster{}, &AnswerError{"beat", err.Error()}
	}
	return r, nil
}

func (c *checkedUplink) Deliver(ctx context.Context, delivery Delivery) (Receipt, error) {
	r, err := c.to.Deliver(ctx, delivery)
	if err != nil {
		return Receipt{}, refusalChecked(err)
	}
	r.RetryAfter = boundedWait(r.RetryAfter)
	return r, nil
}

// refusalChecked makes a *Refusal in err printable and bounds its wait. It returns other errors unchanged.
func refusalChecked(err error) error {
	var refusal *Refusal
	if errors.As(err, &refusal) {
		*refusal = *refusal.Shown()
	}
	return err
}

// Shown returns the refusal with a printable message, a known code and a bounded wait.
func (r *Refusal) Shown() *Refusal {
	s := &Refusal{Code: r.Code, Message: Tidy(r.Message, MaxTextBytes), RetryAfter: boundedWait(r.RetryAfter), cause: r.cause}
	switch s.Code {
	case CodeToken, CodeRevoked, CodeBanned, CodeVersion, CodeRun, CodeName, CodeFull, CodeMalformed, CodeRate, CodeRollouts, CodeEnded, CodeInternal:
	default:
		s.Code = CodeInternal
	}
	if strings.TrimSpace(s.Message) == "" {
		s.Message = "the coordinator refused without a readable reason"
	}
	return s
}

// boundedWait returns how many seconds to wait. It limits the coordinator's value to maxRetryAfter.
func boundedWait(seconds float64) float64 {
	if !(seconds > 0) {
		return 0
	}
	return min(seconds, maxRetryAfter)
}

func (w Welcome) check(experiment string) error {
	switch {
	case !fileName(w.Run, maxRunBytes):
		return fmt.Errorf("%.80q is not a valid run name", w.Run)
	case !fileName(w.Experiment, maxExperimentBytes):
		return fmt.Errorf("%.80q is not a valid experiment name", w.Experiment)
	case experiment != "" && w.Experiment != experiment:
		return fmt.Errorf("it trains experiment %s, not %s", w.Experiment, experiment)
	case len(w.Inputs) > maxInputs:
		return fmt.Errorf("it names %d files, more than %d", len(w.Inputs), maxInputs)
	case w.Round < 0 || w.Round > maxRound:
		return fmt.Errorf("round %d does not exist", w.Round)
	case len(w.Config) > MaxMessageBytes:
		return fmt.Errorf("a configuration of %d bytes", len(w.Config))
	}
	for key, sum := range w.Inputs {
		if len(key) > MaxTextBytes || !printable(key) || len(sum) > maxRunBytes || !printable(sum) {
			return fmt.Errorf("%.40q: %.40q is not a file hash", key, sum)
		}
	}
	var config any
	if err := json.Unmarshal(w.Config, &config); err != nil {
		return errors.New("its configuration is not JSON")
	}
	return texts(config, 0)
}

// maxDepth bounds the nesting of a configuration.
const maxDepth = 32

// texts checks that every text of a configuration is printable. Line ends and tabs are allowed.
func texts(v any, depth int) error {
	if depth > maxDepth {
		return errors.New("its configuration has too many nested levels")
	}
	switch v := v.(type) {
	case string:
		if !printable(strings.NewReplacer("\n", " ", "\t", " ").Replace(v)) {
			return fmt.Errorf("its configuration has control characters: %.60q", v)
		}
	case []any:
		for _, x := range v {
			if err := texts(x, depth+1); err != nil {
				return err
			}
		}
	case map[string]any:
		for key, x := range v {
			if err := errors.Join(texts(key, depth+1), texts(x, depth+1)); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkAssignments compares a worker's assignments with its request.
func checkAssignments(worker string, asked []NodeInfo, got []NodeAssignment) error {
	if len(got) != len(asked) {
		return fmt.Errorf("it assigns %s instead of %d", units.Plural(len(got), "node"), len(asked))
	}
	taken := map[string]bool{}
	for i, a := range got {
		number, own := strings.CutPrefix(a.Node, worker+"_")
		switch key := strings.ToLower(a.Node); {
		case CheckNode(a.Node) != nil:
			return fmt.Errorf("%.80q is not a valid node name", a.Node)
		case taken[key]:
			return fmt.Errorf("it assigns node %s twice", a.Node)
		case asked[i].Name != "" && a.Node != asked[i].Name:
			return fmt.Errorf("it assigns node %s instead of %s", a.Node, asked[i].Name)
		case asked[i].Name == "" && (!own || number == "" || strings.Trim(number, "0123456789") != ""):
			return fmt.Errorf("it assigns node %s, which is not a name of worker %s", a.Node, worker)
		default:
			taken[key] = true
		}
		if a.From < 0 || a.From > maxRound || a.Recorded < a.From || a.Recorded > maxRound || len(a.Evaluated) > maxEvaluated {
			return fmt.Errorf("node %s begins in round %d and has %d recorded", a.Node, a.From, a.Recorded)
		}
		for _, round := range a.Evaluated {
			if round < 0 || round > maxRound {
				return fmt.Errorf("node %s has no round %d", a.Node, round)
			}
		}
	}
	return nil
}

// check checks a roster against its bounds and makes its texts printable.
func (r *Roster) check() error {
	if len(r.Members) > maxMembers {
		return fmt.Errorf("the swarm has %d members, more than %d", len(r.Members), maxMembers)
	}
	taken := make(map[string]bool, len(r.Members))
	for _, m := range r.Members {
		switch key := strings.ToLower(m.Node); {
		case !memberName(m.Node):
			return fmt.Errorf("%.80q is not a valid member name", m.Node)
		case taken[key]:
			return fmt.Errorf("two members are called %s", m.Node)
		case m.From < 0 || m.From > maxRound:
			return fmt.Errorf("member %s begins in round %d", m.Node, m.From)
		case m.Trust != protocol.TrustStream && m.Trust != protocol.TrustKey:
			return fmt.Errorf("member %s has an unknown kind of trust", m.Node)
		default:
			taken[key] = true
		}
	}
	if r.Round < 0 || r.Round > maxRound {
		return fmt.Errorf("round %d does not exist", r.Round)
	}
	if len(r.Ended) > MaxNameBytes || !plain(r.Ended, "_-") {
		return fmt.Errorf("a run cannot end as %.40q", r.Ended)
	}
	r.Message = Tidy(r.Message, MaxTextBytes)
	if math.IsNaN(r.Time) || math.Abs(r.Time) > maxMagnitude {
		return errors.New("its clock has no valid time")
	}
	return nil
}

// CheckNode returns what is wrong with a node's name, on this host or a worker's. It returns nil if the name can be a
// folder's.
func CheckNode(name string) error {
	if refusal := checkName("node", name, maxNodeBytes); refusal != nil {
		return refusal
	}
	return nil
}

// fileName reports whether a name is valid for a run or an experiment: letters, digits, '.', '_' and '-', starting with
// a letter or digit.
func fileName(name string, limit int) bool {
	return name != "" && len(name) <= limit && plain(name, "._-") && plain(name[:1], "")
}

// memberName reports whether a name is valid for a member, including other programs' nodes. It must be unambiguous on
// every file system.
func memberName(name string) bool {
	return name != "" && len(name) <= maxMemberBytes && plain(name, "._-") && strings.Trim(name, ".") != ""
}

// printable reports whether text contains no control or invisible characters.
func printable(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, func(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Cf, r) })
}
