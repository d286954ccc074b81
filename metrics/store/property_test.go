package store

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sapo-swarm/swarm/metrics/event"
)

// dump returns every table's rows as text, without values that depend on the order of writing.
func dump(t require.TestingT, s *Store) map[string][]string {
	tables := map[string][]string{}
	for _, q := range [][2]string{
		{"runs", "SELECT * FROM runs ORDER BY run"},
		{"nodes", "SELECT * FROM nodes ORDER BY run, node"},
		{"rounds", "SELECT * FROM rounds ORDER BY run, round, node"},
		{"task_rewards", "SELECT * FROM task_rewards ORDER BY run, round, node, task"},
		{"peers", "SELECT * FROM peers ORDER BY run, round, node, peer"},
		{"memory", "SELECT * FROM memory ORDER BY run, node, time"},
		{"evals", "SELECT * FROM evals ORDER BY run, round, node"},
		{"eval_questions", "SELECT * FROM eval_questions ORDER BY run, round, node, question"},
		{"checkpoints", "SELECT * FROM checkpoints ORDER BY run, node, round"},
		{"attempts", "SELECT run, attempt, started, ended, state, message FROM attempts ORDER BY run, attempt"},
		{"workers", "SELECT * FROM workers ORDER BY run, worker"},
		{"deliveries", "SELECT run, worker, outbox, acked FROM deliveries ORDER BY run, worker, outbox"},
		{"events", "SELECT run, node, worker, detail, type, time, state, cause, message, pid, exit_code, seconds FROM events ORDER BY id"},
	} {
		rows, err := s.db.Query(q[1])
		require.NoError(t, err)
		columns, err := rows.Columns()
		require.NoError(t, err)
		for rows.Next() {
			values := make([]any, len(columns))
			into := make([]any, len(columns))
			for i := range values {
				into[i] = &values[i]
			}
			require.NoError(t, rows.Scan(into...))
			tables[q[0]] = append(tables[q[0]], fmt.Sprint(values...))
		}
		require.NoError(t, rows.Err())
		require.NoError(t, rows.Close())
	}
	return tables
}

func drawEvent(t *rapid.T) event.Event {
	e := event.Event{
		Run:  testRun,
		Node: rapid.SampledFrom([]string{"node_0", "node_2"}).Draw(t, "node"),
		// Few distinct times make ties and disorder common.
		Time:    float64(rapid.IntRange(101, 106).Draw(t, "time")),
		Message: rapid.SampledFrom([]string{"", "oom"}).Draw(t, "message"),
	}
	e.Replayed = rapid.IntRange(0, 3).Draw(t, "replayed") == 0
	value := func(label string) float64 {
		return rapid.SampledFrom([]float64{0, 0.1, 0.3, 1, math.NaN(), math.Inf(1), math.Inf(-1)}).Draw(t, label)
	}
	small := func(label string) int { return rapid.IntRange(0, 2).Draw(t, label) }
	e.Type = rapid.SampledFrom([]event.Type{
		event.TypeState, event.TypeLoaded, event.TypeRound, event.TypeRound, event.TypeRound, event.TypeMemory, event.TypeCheckpoint, event.TypeWarning,
		event.TypeFailure, event.TypeSpawn, event.TypeExit, event.TypeRestart, event.TypeGiveUp, event.TypeRunEnded, event.TypeLease, event.TypeEval, event.TypeEval,
		event.TypeJoin, event.TypeLeave, event.TypeWorker,
	}).Draw(t, "type")
	switch e.Type {
	case event.TypeState:
		e.State, e.RoundIndex = rapid.SampledFrom(lifeOrder[:]).Draw(t, "state"), small("working")
	case event.TypeRunEnded:
		e.State = event.State(rapid.SampledFrom([]string{RunDone, RunFailed}).Draw(t, "state"))
	case event.TypeLoaded:
		e.Loaded = &event.Loaded{Model: "gpt2", SelfTestMaxAbsDiff: value("diff"), StartRound: small("start"), ReplayedRounds: small("applied")}
	case event.TypeMemory:
		e.Memory = &event.Memory{RSSBytes: int64(small("rss")), DeviceBytes: int64(small("device"))}
	case event.TypeCheckpoint:
		e.Checkpoint = &event.Checkpoint{Round: small("round"), Bytes: int64(small("bytes"))}
	case event.TypeJoin:
		e.Worker, e.RoundIndex = "anna", small("from")
	case event.TypeLeave:
		e.Worker, e.Cause = "anna", rapid.SampledFrom([]string{"", event.CauseStopped}).Draw(t, "cause")
	case event.TypeWorker:
		e.Node, e.Worker = "", rapid.SampledFrom([]string{"anna", "bob"}).Draw(t, "worker")
		e.State = rapid.SampledFrom([]event.State{event.WorkerConnected, event.WorkerAway, event.WorkerBanned}).Draw(t, "worker state")
	case event.TypeSpawn, event.TypeExit:
		e.PID = small("pid")
		if code := small("code"); code < 2 {
			e.ExitCode = &code
		}
		e.Cause = rapid.SampledFrom([]string{"", event.CauseStopped}).Draw(t, "cause")
	case event.TypeEval:
		e.Eval = &event.Eval{Round: small("round"), Set: rapid.SampledFrom([]string{"s", "t"}).Draw(t, "set"), FormatRate: value("format")}
		for range small("questions") {
			e.Eval.Questions = append(e.Eval.Questions, event.EvalQuestion{Task: "t", Correct: small("correct"), RewardSum: value("sum")})
		}
	case event.TypeRound:
		e.Round = &event.Round{Round: small("round"), Reward: value("reward"), Loss: value("loss"), GenerateOnly: small("generates") == 2}
		for i := range small("tasks") {
			e.Round.Tasks = append(e.Round.Tasks, event.TaskReward{Task: fmt.Sprint("task", i), RewardSum: value("sum")})
		}
		for i := range small("peers") {
			e.Round.Peers = append(e.Round.Peers, event.Peer{Node: fmt.Sprint("node_", i), Used: small("used")})
		}
	}
	return e
}

// TestReplayChangesNothing compares a sequence of events with the same sequence in which any events are repeated at any
// later point, in any batches and across reopened stores. Both leave the same tables, and the maintained sums equal the
// sums of the rows.
func TestReplayChangesNothing(t *testing.T) {
	dir, files := t.TempDir(), 0
	rapid.Check(t, func(t *rapid.T) {
		events := rapid.SliceOfN(rapid.Custom(drawEvent), 1, 40).Draw(t, "events")
		var replayed []event.Event
		for i, e := range events {
			replayed = append(replayed, e)
			for range rapid.IntRange(0, 2).Draw(t, "repeats") {
				replayed = append(replayed, events[rapid.IntRange(0, i).Draw(t, "which")])
			}
		}
		replayed = append(replayed, events[:rapid.IntRange(0, len(events)).Draw(t, "all of the first")]...)

		write := func(events []event.Event, reopen int) map[string][]string {
			files++
			path := filepath.Join(dir, fmt.Sprint(files, ".db"))
			open := func() *Store {
				s, err := Open(context.Background(), path, Options{MaxBatch: rapid.IntRange(1, 9).Draw(t, "batch")})
				require.NoError(t, err)
				return s
			}
			s := open()
			require.NoError(t, s.StartRun(context.Background(), aRun()))
			for i, e := range events {
				if i == reopen {
					require.NoError(t, s.Close())
					s = open()
				}
				require.NoError(t, s.Record(context.Background(), e))
			}
			require.NoError(t, s.Flush(context.Background()))
			tables := dump(t, s)
			requireSums(t, s)
			require.NoError(t, s.Close())
			return tables
		}
		once := write(events, -1)
		again := write(replayed, rapid.IntRange(0, len(replayed)-1).Draw(t, "reopen"))
		require.Equal(t, once, again)
	})
}

// requireSums checks the columns of nodes and evals that are derived from other tables.
func requireSums(t require.TestingT, s *Store) {
	var wrong int
	require.NoError(t, s.db.QueryRow(`SELECT count(*) FROM nodes n WHERE
  abs(cumulative_reward - (SELECT coalesce(sum(reward), 0.0) FROM rounds r WHERE r.run = n.run AND r.node = n.node)) > 1e-9
  OR rounds_done != (SELECT count(*) FROM rounds r WHERE r.run = n.run AND r.node = n.node)
  OR last_round != (SELECT coalesce(max(round), -1) FROM rounds r WHERE r.run = n.run AND r.node = n.node)
  OR last_reward IS NOT (SELECT reward FROM rounds r WHERE r.run = n.run AND r.node = n.node ORDER BY round DESC LIMIT 1)
  OR restarts != (SELECT count(*) FROM events e WHERE e.run = n.run AND e.node = n.node AND e.type = 'restart')`).Scan(&wrong))
	require.Zero(t, wrong)
	require.NoError(t, s.db.QueryRow(`SELECT count(*) FROM evals e WHERE (questions, correct, reward_sum) IS NOT (
  SELECT count(*), coalesce(sum(correct), 0), coalesce(sum(reward_sum), 0.0) FROM eval_questions q
  WHERE q.run = e.run AND q.round = e.round AND q.node = e.node)`).Scan(&wrong))
	require.Zero(t, wrong)
}
