package membership

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sapo-swarm/swarm/node/protocol"
)

// saying is a coordinator with fixed answers.
type saying struct {
	welcome Welcome
	joined  Joined
	roster  Roster
	receipt Receipt
	err     error
}

func (s *saying) Hello(context.Context, Hello) (Welcome, error)      { return s.welcome, s.err }
func (s *saying) Join(context.Context, Join) (Joined, error)         { return s.joined, s.err }
func (s *saying) Beat(context.Context, Beat) (Roster, error)         { return s.roster, s.err }
func (s *saying) Deliver(context.Context, Delivery) (Receipt, error) { return s.receipt, s.err }
func (s *saying) Close() error                                       { return nil }

func askedNodes(names ...string) (join Join) {
	for _, name := range names {
		join.Nodes = append(join.Nodes, NodeInfo{Name: name})
	}
	return join
}

// A worker rejects an assignment under a name that it didn't request, that another node has, or that leads out of its
// run's folder.
func TestAssignmentsAreHeldToWhatWasAskedFor(t *testing.T) {
	for _, c := range []struct {
		name  string
		asked []string
		got   []NodeAssignment
		why   string
	}{
		{"as asked", []string{"", "eva"}, []NodeAssignment{{Node: "anna_0"}, {Node: "eva", From: 3, Recorded: 7}}, ""},
		{"another number", []string{""}, []NodeAssignment{{Node: "anna_17"}}, ""},
		{"out of the folder", []string{""}, []NodeAssignment{{Node: "../../../x"}}, "not a valid node name"},
		{"absolute", []string{""}, []NodeAssignment{{Node: "/etc"}}, "not a valid node name"},
		{"a folder below", []string{""}, []NodeAssignment{{Node: "anna_0/x"}}, "not a valid node name"},
		{"dots", []string{".."}, []NodeAssignment{{Node: ".."}}, "not a valid node name"},
		{"an option", []string{""}, []NodeAssignment{{Node: "-rf"}}, "not a valid node name"},
		{"a terminal's command", []string{""}, []NodeAssignment{{Node: "anna_0\x1b[2J"}}, "not a valid node name"},
		{"none", []string{""}, []NodeAssignment{{Node: ""}}, "not a valid node name"},
		{"another than wished", []string{"eva"}, []NodeAssignment{{Node: "anna_0"}}, "instead of eva"},
		{"another worker's", []string{""}, []NodeAssignment{{Node: "engine-host"}}, "not a name of worker anna"},
		{"twice", []string{"", ""}, []NodeAssignment{{Node: "anna_0"}, {Node: "anna_0"}}, "twice"},
		{"twice where cases are one", []string{"eva", "EVA"}, []NodeAssignment{{Node: "eva"}, {Node: "EVA"}}, "twice"},
		{"too few", []string{"", ""}, []NodeAssignment{{Node: "anna_0"}}, "1 node instead of 2"},
		{"a round before the first", []string{""}, []NodeAssignment{{Node: "anna_0", From: -1}}, "begins"},
		{"recorded before it began", []string{""}, []NodeAssignment{{Node: "anna_0", From: 5, Recorded: 4}}, "begins"},
		{"a round that is none", []string{""}, []NodeAssignment{{Node: "anna_0", From: math.MaxInt, Recorded: math.MaxInt}}, "begins"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Checked(&saying{joined: Joined{Assignments: c.got}}, "anna", "").Join(t.Context(), askedNodes(c.asked...))
			if c.why == "" {
				require.NoError(t, err)
				return
			}
			var answer *AnswerError
			require.ErrorAs(t, err, &answer)
			require.Contains(t, answer.Why, c.why)
			require.True(t, printable(err.Error()), "%q", err.Error())
		})
	}
}

// Names of run, experiment and members from a coordinator become paths and terminal output.
func TestWelcomesAndRostersAreHeldToTheRules(t *testing.T) {
	good := Welcome{Run: "e-1", Experiment: "e", Config: json.RawMessage(`{"model":"gpt2","tasks":{"system":"a\nb"}}`), Inputs: map[string]string{"model": "ab12"}}
	for name, change := range map[string]func(*Welcome){
		"run out of the home":     func(w *Welcome) { w.Run = "../../x" },
		"no run":                  func(w *Welcome) { w.Run = "" },
		"hidden run":              func(w *Welcome) { w.Run = ".ssh" },
		"experiment out of it":    func(w *Welcome) { w.Experiment = "a/../../b" },
		"another experiment":      func(w *Welcome) { w.Experiment = "f" },
		"configuration of noise":  func(w *Welcome) { w.Config = json.RawMessage(`{`) },
		"model with a command":    func(w *Welcome) { w.Config = json.RawMessage(`{"model":"gpt2\u001b]0;x\u0007"}`) },
		"key with a command":      func(w *Welcome) { w.Config = json.RawMessage(`{"a":{"\u009b2J":1}}`) },
		"hash with a command":     func(w *Welcome) { w.Inputs = map[string]string{"model": "\x1b[2J"} },
		"round below the first":   func(w *Welcome) { w.Round = -1 },
		"configuration of depths": func(w *Welcome) { w.Config = json.RawMessage(strings.Repeat("[", 100) + strings.Repeat("]", 100)) },
	} {
		w := good
		change(&w)
		_, err := Checked(&saying{welcome: w}, "anna", "e").Hello(t.Context(), Hello{})
		var answer *AnswerError
		require.ErrorAs(t, err, &answer, name)
		require.True(t, printable(err.Error()), "%s: %q", name, err.Error())
	}
	good.Version = "v1\x1b[31m"
	w, err := Checked(&saying{welcome: good}, "anna", "e").Hello(t.Context(), Hello{})
	require.NoError(t, err)
	require.True(t, printable(w.Version))

	for name, members := range map[string][]protocol.Member{
		"out of a folder": {{Node: "../x"}}, "no name": {{}}, "twice": {{Node: "a"}, {Node: "A"}}, "a command": {{Node: "\x1b[2J"}},
		"trusted by nobody": {{Node: "a", Trust: "blindly"}}, "before the first round": {{Node: "a", From: -2}},
	} {
		_, err := Checked(&saying{roster: Roster{Version: 1, Members: members}}, "anna", "").Beat(t.Context(), Beat{})
		var answer *AnswerError
		require.ErrorAs(t, err, &answer, name)
	}
	r, err := Checked(&saying{roster: Roster{Members: []protocol.Member{{Node: "node_0"}, {Node: "other.program"}}, Ended: "done", Message: "a\x1b[2Jb"}}, "a", "").
		Beat(t.Context(), Beat{})
	require.NoError(t, err)
	require.Equal(t, "ab", r.Message)
}

// Any refusal of a coordinator is shown as text, and no wait exceeds a few minutes.
func TestRefusalsAreShownAndWaitsAreBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		refusal := &Refusal{Code: rapid.String().Draw(t, "code"), Message: rapid.String().Draw(t, "message"), RetryAfter: rapid.Float64().Draw(t, "retry")}
		_, err := Checked(&saying{err: fmt.Errorf("hello: %w", refusal)}, "anna", "").Hello(context.Background(), Hello{})
		var shown *Refusal
		require.ErrorAs(t, err, &shown)
		require.True(t, printable(shown.Message), "%q", shown.Message)
		require.NotEmpty(t, strings.TrimSpace(shown.Message))
		require.True(t, shown.RetryAfter >= 0 && shown.RetryAfter <= maxRetryAfter)
		require.True(t, plain(shown.Code, ""), "%q", shown.Code)
	})
	r, err := Checked(&saying{receipt: Receipt{RetryAfter: 1e300}}, "anna", "").Deliver(t.Context(), Delivery{})
	require.NoError(t, err)
	require.LessOrEqual(t, r.RetryAfter, float64(maxRetryAfter))
}

// Every accepted name is a single path element.
func TestNamesThatAreTakenStayInTheirFolder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.OneOf(rapid.String(), rapid.StringMatching(`[a-z./\\_~-]{1,12}`)).Draw(t, "name")
		taken := CheckNode(name) == nil || fileName(name, maxRunBytes) || memberName(name)
		if taken && (!filepath.IsLocal(name) || filepath.Base(name) != name || name == "." || !printable(name)) {
			t.Fatalf("%q is taken", name)
		}
	})
	require.NoError(t, errors.Join(CheckNode("node_0"), CheckNode("anna-2_11")))
}

// A worker gets the name that it requested, possibly with a number.
func TestEnrolledUnderTheNameThatWasAskedFor(t *testing.T) {
	long := strings.Repeat("l", maxWorkerBytes)
	for wished, answers := range map[string]map[string]bool{
		"anna": {"anna": true, "anna-2": true, "anna-17": true, "eve": false, "anna-0": false, "coordinator": false, "anna-": false},
		long:   {long: true, long[:maxWorkerBytes-2] + "-2": true},
	} {
		for name, good := range answers {
			a := Apply("token", wished)
			c, err := a.Accept(a.Enrol.accept("token", name))
			require.Equal(t, good, err == nil, "%s for %s", name, wished)
			require.True(t, !good || c.Worker == name)
		}
	}
}
