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

// Bounds of what a worker takes from a coordinator. What is above them is not taken.
const (
	maxRunBytes        = 128
	maxExperimentBytes = 64
	maxMemberBytes     = 64 // of a node in the roster: another program's may be longer than ours
	maxInputs          = 128
	maxRound           = 99_999_999
	maxEvaluated       = 1 << 17
	maxRetryAfter      = 300 // seconds
)

// AnswerError says that a coordinator's answer breaks the rules of these messages. Nothing of that answer is used.
type AnswerError struct {
	To  string // the request: hello, join, beat, deliver
	Why string
}

func (e *AnswerError) Error() string {
	return "the coordinator's answer to " + e.To + " is refused: " + e.Why +
		". Try: the same version of swarm on both hosts; where that is so, do not trust this coordinator"
}

// Checked returns an Uplink that takes no answer from the coordinator unless it keeps to the rules: names are names,
// unique, and those that were asked for; numbers are within their bounds; texts can be shown on a terminal. An answer
// that breaks a rule is an *AnswerError. experiment is the one that was asked for; empty: any.
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

// refusalChecked makes the *Refusal in err one that can be shown and waited for. Other errors stay as they are.
func refusalChecked(err error) error {
	var refusal *Refusal
	if errors.As(err, &refusal) {
		*refusal = *refusal.Shown()
	}
	return err
}

// Shown is the refusal with a text that a terminal can show, a code that is known, and a wait within its bound.
func (r *Refusal) Shown() *Refusal {
	s := &Refusal{Code: r.Code, Message: Tidy(r.Message, MaxTextBytes), RetryAfter: boundedWait(r.RetryAfter), cause: r.cause}
	switch s.Code {
	case CodeToken, CodeRevoked, CodeBanned, CodeVersion, CodeRun, CodeName, CodeFull, CodeMalformed, CodeRate, CodeRollouts, CodeEnded, CodeInternal:
	default:
		s.Code = CodeInternal
	}
	if strings.TrimSpace(s.Message) == "" {
		s.Message = "the coordinator said no and gave no readable reason"
	}
	return s
}

// boundedWait is how many seconds to wait when told to: the coordinator is believed only so far.
func boundedWait(seconds float64) float64 {
	if !(seconds > 0) {
		return 0
	}
	return min(seconds, maxRetryAfter)
}

func (w Welcome) check(experiment string) error {
	switch {
	case !fileName(w.Run, maxRunBytes):
		return fmt.Errorf("%.80q is no name of a run", w.Run)
	case !fileName(w.Experiment, maxExperimentBytes):
		return fmt.Errorf("%.80q is no name of an experiment", w.Experiment)
	case experiment != "" && w.Experiment != experiment:
		return fmt.Errorf("it trains experiment %s, and %s was asked for", w.Experiment, experiment)
	case len(w.Inputs) > maxInputs:
		return fmt.Errorf("it names %d files, more than %d", len(w.Inputs), maxInputs)
	case w.Round < 0 || w.Round > maxRound:
		return fmt.Errorf("there is no round %d", w.Round)
	case len(w.Config) > MaxMessageBytes:
		return fmt.Errorf("a configuration of %d bytes", len(w.Config))
	}
	for key, sum := range w.Inputs {
		if len(key) > MaxTextBytes || !printable(key) || len(sum) > maxRunBytes || !printable(sum) {
			return fmt.Errorf("%.40q: %.40q is no file's hash", key, sum)
		}
	}
	var config any
	if err := json.Unmarshal(w.Config, &config); err != nil {
		return errors.New("its configuration is not JSON")
	}
	return texts(config, 0)
}

// maxDepth bounds how deep a configuration is nested.
const maxDepth = 32

// texts holds every text of a configuration to what can be shown: lines and tabs are allowed.
func texts(v any, depth int) error {
	if depth > maxDepth {
		return errors.New("its configuration is nested too deep")
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

// checkAssignments holds the assignments of a worker to what it asked for.
func checkAssignments(worker string, asked []NodeInfo, got []NodeAssignment) error {
	if len(got) != len(asked) {
		return fmt.Errorf("it assigns %s, and %d were asked for", units.Plural(len(got), "node"), len(asked))
	}
	taken := map[string]bool{}
	for i, a := range got {
		number, own := strings.CutPrefix(a.Node, worker+"_")
		switch key := strings.ToLower(a.Node); {
		case CheckNode(a.Node) != nil:
			return fmt.Errorf("%.80q is no name of a node", a.Node)
		case taken[key]:
			return fmt.Errorf("it assigns node %s twice", a.Node)
		case asked[i].Name != "" && a.Node != asked[i].Name:
			return fmt.Errorf("it assigns node %s, and %s was asked for", a.Node, asked[i].Name)
		case asked[i].Name == "" && (!own || number == "" || strings.Trim(number, "0123456789") != ""):
			return fmt.Errorf("it assigns node %s, which is no name of worker %s's", a.Node, worker)
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

// check holds a roster to its bounds and makes its texts fit to be shown.
func (r *Roster) check() error {
	if len(r.Members) > maxMembers {
		return fmt.Errorf("the swarm has %d members, more than %d", len(r.Members), maxMembers)
	}
	taken := make(map[string]bool, len(r.Members))
	for _, m := range r.Members {
		switch key := strings.ToLower(m.Node); {
		case !memberName(m.Node):
			return fmt.Errorf("%.80q is no name of a member", m.Node)
		case taken[key]:
			return fmt.Errorf("two members are called %s", m.Node)
		case m.From < 0 || m.From > maxRound:
			return fmt.Errorf("member %s begins in round %d", m.Node, m.From)
		case m.Trust != protocol.TrustStream && m.Trust != protocol.TrustKey:
			return fmt.Errorf("member %s is trusted in no known way", m.Node)
		default:
			taken[key] = true
		}
	}
	if r.Round < 0 || r.Round > maxRound {
		return fmt.Errorf("there is no round %d", r.Round)
	}
	if len(r.Ended) > MaxNameBytes || !plain(r.Ended, "_-") {
		return fmt.Errorf("a run can't end as %.40q", r.Ended)
	}
	r.Message = Tidy(r.Message, MaxTextBytes)
	if math.IsNaN(r.Time) || math.Abs(r.Time) > maxMagnitude {
		return errors.New("its clock shows no time")
	}
	return nil
}

// CheckNode returns the problem of a node's name, on this host or a worker's; nil: it can name a folder.
func CheckNode(name string) error {
	if refusal := checkName("node", name, maxNodeBytes); refusal != nil {
		return refusal
	}
	return nil
}

// fileName tells whether a run or an experiment may be called so: letters, digits, '.', '_' and '-', a letter or digit
// first.
func fileName(name string, limit int) bool {
	return name != "" && len(name) <= limit && plain(name, "._-") && plain(name[:1], "")
}

// memberName tells whether a member of the swarm, another program's too, may be called so: it means itself on every
// file system.
func memberName(name string) bool {
	return name != "" && len(name) <= maxMemberBytes && plain(name, "._-") && strings.Trim(name, ".") != ""
}

// printable tells whether text has nothing in it that a terminal obeys or that is invisible.
func printable(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, func(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Cf, r) })
}
