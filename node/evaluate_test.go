package node

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/node/best"
	"github.com/sapo-swarm/swarm/node/protocol"
)

// book holds the evaluations that a database would have of a node, and counts the replayed ones.
type book struct {
	t        *testing.T
	evals    map[int]event.Eval // by round, without times
	replayed int
}

// take records the evaluations of a process that has ended.
func (b *book) take(l *nodeProcess, start protocol.Start) {
	b.t.Helper()
	for _, e := range l.events {
		if e.Eval == nil {
			continue
		}
		eval := *e.Eval
		eval.Seconds = 0
		require.NotContains(b.t, start.Evaluated, eval.Round, "the database has it")
		require.NotContains(b.t, b.evals, eval.Round, "told twice")
		b.evals[eval.Round] = eval
		if e.Replayed {
			b.replayed++
		}
	}
}

func (b *book) evaluated() []int {
	rounds := []int{}
	for round := range b.evals {
		rounds = append(rounds, round)
	}
	return rounds
}

func newBook(t *testing.T) *book { return &book{t: t, evals: map[int]event.Eval{}} }

// evaluating configures evaluations after rounds 0, 2, 4 and 5, with 20 questions in two calls.
func evaluating(c *configs.Config) {
	c.Rounds, c.CheckpointEvery, c.EvalEvery, c.EvalQuestions, c.EvalGenerations = 5, 3, 2, 20, 4
}

// choosing is the same, and keeps its best weights by 8 other questions.
func choosing(c *configs.Config) {
	evaluating(c)
	c.ValidationQuestions = 8
}

// evaluationPoints are the points around an evaluation where a process can end.
var evaluationPoints = []point{
	{Type: event.TypeState, State: event.StateEvaluating, Round: 0},
	{Type: event.TypeEval, Round: 0, Before: true}, // made, not reported
	{Type: event.TypeState, State: event.StateGenerating, Round: 0},
	{Type: event.TypeState, State: event.StateEvaluating, Round: 2, Engine: true},
	{Type: event.TypeEval, Round: 2}, // reported
	{Type: event.TypeState, State: event.StateCheckpoint, Round: 3},
	{Type: event.TypeState, State: event.StateEvaluating, Round: 4},
	{Type: event.TypeEval, Round: 4, Before: true},
	{Type: event.TypeCheckpoint, Round: 5},
	{Type: event.TypeState, State: event.StateEvaluating, Round: 5, Engine: true},
	{Type: event.TypeEval, Round: 5, Before: true},
}

// A node that is killed at every point around its evaluations reports each of them once, with the same results as
// without kills.
func TestKilledAroundEvaluations(t *testing.T) {
	t.Parallel()
	calmStart := assignment(t, broker(t, "calm"), "calm", t.TempDir(), choosing)
	calm := begin(t, calmStart)
	calm.wait = 2 * soon
	calm.ends(ExitDone)
	want, wantRounds := newBook(t), newLedger(t)
	want.take(calm, calmStart)
	wantRounds.take(calm, 0)
	require.ElementsMatch(t, []int{0, 2, 4, 5}, want.evaluated())
	require.Zero(t, want.replayed)
	require.NotEqual(t, want.evals[0].Questions, want.evals[5].Questions, "it learns nothing: evaluations can't differ")

	kept := requireBest(t, calmStart.Dir, calm)
	if kept.Round == 5 {
		require.Equal(t, wantRounds.checkpoints[5], kept.WeightHash)
	}

	start := assignment(t, broker(t, "storm"), "storm", t.TempDir(), choosing)
	got, gotRounds, met := newBook(t), newLedger(t), 0
	for _, p := range append(evaluationPoints, point{Type: "never"}) {
		start.Recorded, start.Evaluated = gotRounds.recorded(), got.evaluated()
		l, _ := beginMortal(t, start, p)
		if code := l.dies(); code != ExitDone {
			met++
		}
		got.take(l, start)
		gotRounds.take(l, start.Recorded)
	}
	require.Equal(t, len(evaluationPoints), met)
	require.Equal(t, want.evals, got.evals)
	require.Positive(t, got.replayed)
	require.Equal(t, wantRounds.rounds, gotRounds.rounds)
	require.Equal(t, wantRounds.checkpoints[5], gotRounds.checkpoints[5])
	file, err := openEvaluations(filepath.Join(start.Dir, evaluationsFile), nil, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	require.Len(t, file.unreported, 4)
	again := requireBest(t, start.Dir, nil)
	again.Run = kept.Run
	require.Equal(t, kept, again, "the best weights, and all that was judged")
}

// requireBest returns the best weights of a node that has ended, and checks what its folder holds.
func requireBest(t *testing.T, dir string, l *nodeProcess) best.Weights {
	t.Helper()
	b, err := best.Read(dir)
	require.NoError(t, err)
	var rounds []int
	for _, j := range b.All {
		rounds = append(rounds, j.Round)
		require.False(t, j.Better(b.Judged), "round %d: %v", j.Round, b)
	}
	require.Contains(t, b.All, b.Judged)
	require.ElementsMatch(t, []int{0, 2, 4, 5}, rounds)
	require.Equal(t, []int{8, 4}, []int{b.Count, b.Generations})
	folders, err := filepath.Glob(filepath.Join(dir, best.Pattern))
	require.NoError(t, err)
	require.Equal(t, []string{filepath.Join(dir, b.Folder)}, folders)
	require.FileExists(t, filepath.Join(dir, b.Folder, "config.json"))
	require.NoError(t, checkSum(filepath.Join(dir, b.Folder, "model.safetensors"), b.SHA256))
	if l != nil {
		require.NotContains(t, strings.Join(l.sets(), " "), b.Set, "other questions than the evaluation's")
	}
	return b
}

// sets are the question sets of a process's evaluations.
func (l *nodeProcess) sets() (sets []string) {
	for _, e := range l.events {
		if e.Eval != nil {
			sets = append(sets, e.Eval.Set)
		}
	}
	return sets
}

// A run that evaluates has the same rounds, weights and rewards as one that does not. A longer run evaluates at its
// new end.
func TestEvaluationsChangeNothing(t *testing.T) {
	t.Parallel()
	plain := begin(t, assignment(t, broker(t, "plain"), "plain", t.TempDir(), func(c *configs.Config) { evaluating(c); c.EvalQuestions = 0 }))
	plain.ends(ExitDone)
	want := newLedger(t)
	want.take(plain, 0)
	require.NotContains(t, plain.states(), event.StateEvaluating)

	server, dir := broker(t, "evaluated"), t.TempDir()
	start := assignment(t, server, "evaluated", dir, func(c *configs.Config) { evaluating(c); c.Rounds, c.EvalEvery = 3, 0 })
	short := begin(t, start)
	short.ends(ExitDone)
	got, evals := newLedger(t), newBook(t)
	got.take(short, 0)
	evals.take(short, start)
	require.ElementsMatch(t, []int{0, 3}, evals.evaluated())

	start = assignment(t, server, "evaluated", dir, choosing)
	start.Recorded, start.Evaluated = 3, []int{0} // the database has lost an evaluation
	long := begin(t, start)
	long.ends(ExitDone)
	got.take(long, 3)
	evals.evals = map[int]event.Eval{0: evals.evals[0]}
	evals.take(long, start)
	require.ElementsMatch(t, []int{0, 3, 4, 5}, evals.evaluated(), "4 is due, 2 has gone by")
	require.Equal(t, 1, evals.replayed)
	require.Equal(t, want.rounds, got.rounds)
	require.Equal(t, want.checkpoints[5], got.checkpoints[5])
	kept, err := best.Read(dir)
	require.NoError(t, err)
	require.Len(t, kept.All, 2, "after rounds 4 and 5")

	require.NoError(t, os.WriteFile(filepath.Join(dir, best.File), []byte(`{"version": 2}`), 0o600))
	newer := begin(t, start)
	newer.ends(ExitConfig)
	require.Equal(t, event.CauseConfig, newer.failure().Cause, "a restart can't help")
	require.Contains(t, newer.failure().Message, "a newer version of the program wrote best.json: its version is 2, this program reads 1. Try: ")
}

// A node that is told to stop during an evaluation stops, and its next process makes the evaluation.
func TestStopInAnEvaluation(t *testing.T) {
	t.Parallel()
	start := assignment(t, broker(t, "stop"), "stop", t.TempDir(), func(c *configs.Config) { evaluating(c); c.EvalGenerations = 64 })
	l := begin(t, start)
	l.await("evaluating", func(e event.Event) bool { return e.State == event.StateEvaluating && e.RoundIndex == 2 })
	l.command(protocol.Command{Type: protocol.CommandStop})
	l.ends(ExitDone)
	evals := newBook(t)
	evals.take(l, start)
	require.Equal(t, []int{0}, evals.evaluated())
	states := l.states()
	require.Equal(t, event.StateStopped, states[len(states)-1])
	require.FileExists(t, filepath.Join(start.Dir, checkpointName(2)+".json"))

	start.Recorded, start.Evaluated = 2, []int{0}
	again := begin(t, start)
	again.await("the evaluation", func(e event.Event) bool { return e.Eval != nil && e.Eval.Round == 2 })
	again.command(protocol.Command{Type: protocol.CommandStop})
	again.ends(ExitDone)
	require.Empty(t, again.failure().Message)
}

// The warning about too few held-out questions is sent once.
func TestFewHeldOutQuestionsAreToldOfOnce(t *testing.T) {
	t.Parallel()
	var lines strings.Builder
	for i := range 100 {
		fmt.Fprintf(&lines, `{"question": "%d plus 1", "answer": "%d", "metadata": {}}`+"\n", i, i+1)
	}
	path := filepath.Join(t.TempDir(), "items")
	require.NoError(t, os.WriteFile(path, []byte(lines.String()), 0o644))
	start := assignment(t, broker(t, "few"), "few", t.TempDir(), func(c *configs.Config) {
		c.Rounds, c.CheckpointEvery, c.EvalQuestions, c.Tasks = 2, 1, 54, configs.Tasks{Set: "nano", File: path, SystemPrompt: "none"}
	})
	warnings := func(l *nodeProcess) (list []string) {
		for _, e := range l.events {
			if e.Type == event.TypeWarning {
				list = append(list, e.Message)
			}
		}
		return list
	}
	l := begin(t, start)
	l.ends(ExitDone)
	require.Len(t, warnings(l), 1)
	require.Contains(t, warnings(l)[0], "questions instead of the 54 of eval_questions")
	evals := newBook(t)
	evals.take(l, start)
	require.ElementsMatch(t, []int{0, 2}, evals.evaluated())
	require.NotEmpty(t, evals.evals[2].Questions)
	start.Recorded, start.Evaluated = 2, []int{0, 2}
	again := begin(t, start)
	again.ends(ExitDone)
	require.Empty(t, warnings(again))
}

// A damaged line costs only its own evaluation.
func TestDamagedEvaluations(t *testing.T) {
	path := filepath.Join(t.TempDir(), evaluationsFile)
	quiet := slog.New(slog.DiscardHandler)
	open := func(recorded ...int) *evaluations {
		v, err := openEvaluations(path, recorded, quiet)
		require.NoError(t, err)
		return v
	}
	v := open()
	for round := range 4 {
		require.NoError(t, v.keep(float64(round+1), event.Eval{Round: round, Set: "s", Questions: []event.EvalQuestion{{Task: "t", Correct: round}}}))
	}
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	told := func(list []event.Event) (rounds []int) {
		for _, e := range list {
			require.True(t, e.Replayed)
			require.Equal(t, float64(e.Eval.Round+1), e.Time)
			rounds = append(rounds, e.Eval.Round)
		}
		return rounds
	}
	require.Equal(t, []int{0, 1, 2, 3}, told(open().settle(9)))
	require.Equal(t, []int{1, 3}, told(open(0, 2).settle(9)))

	v = open(0, 3)
	require.Equal(t, []int{1}, told(v.settle(1)), "the node goes on with round 1: what came later is lost")
	require.Equal(t, map[int]bool{0: true, 1: true}, v.known)

	digit := bytes.Index(whole, []byte(`"correct":2`)) + len(`"correct":`)
	damaged := bytes.Clone(whole)
	damaged[digit] = '3'
	require.NoError(t, os.WriteFile(path, damaged, 0o644))
	require.Equal(t, []int{0, 1, 3}, told(open().settle(9)))

	for cut := range len(whole) {
		require.NoError(t, os.WriteFile(path, whole[:cut], 0o644))
		v := open()
		left, end := 0, -1
		for line := range bytes.Lines(whole) {
			if end += len(line); cut >= end { // only the line's end may be missing
				left++
			}
		}
		require.Len(t, v.unreported, left)
		require.NoError(t, v.keep(9, event.Eval{Round: 8}))
		require.Len(t, open().unreported, left+1, "cut after %d bytes", cut)
	}
}
