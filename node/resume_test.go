package node

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/node/journal"
	"github.com/sapo-swarm/swarm/node/protocol"
)

// ledger holds what a database would have of a node: the first report of each round.
type ledger struct {
	t           *testing.T
	rounds      map[int]event.Round
	checkpoints map[int]string // weight hashes
	replayed    int
}

// take records the events of a process that has ended.
func (b *ledger) take(l *nodeProcess, recorded int) {
	b.t.Helper()
	for _, e := range l.events {
		switch {
		case e.Checkpoint != nil:
			if hash, known := b.checkpoints[e.Checkpoint.Round]; known {
				require.Equal(b.t, hash, e.Checkpoint.WeightHash, "checkpoint of round %d", e.Checkpoint.Round)
			}
			b.checkpoints[e.Checkpoint.Round] = e.Checkpoint.WeightHash
		case e.Round != nil:
			require.GreaterOrEqual(b.t, e.Round.Round, recorded, "the database has it")
			b.rounds[e.Round.Round] = timeless(*e.Round)
		case e.Loaded != nil:
			b.replayed += e.Loaded.ReplayedRounds
		}
	}
}

// recorded is the number of rounds from 0 without a gap.
func (b *ledger) recorded() int {
	n := 0
	for _, ok := b.rounds[n]; ok; _, ok = b.rounds[n] {
		n++
	}
	return n
}

// timeless returns a report without durations.
func timeless(r event.Round) event.Round {
	r.StepTime, r.GenerateTime, r.UpdateTime, r.ScoreTime, r.LeaseTime, r.BarrierTime, r.JournalTime = 0, 0, 0, 0, 0, 0, 0
	return r
}

func newLedger(t *testing.T) *ledger {
	return &ledger{t: t, rounds: map[int]event.Round{}, checkpoints: map[int]string{}}
}

// points are all the places of a round where a process can end, in the order in which one run can reach them. The
// checkpoints are after rounds 3, 6 and 9.
var points = []point{
	{Type: event.TypeLoaded, Round: -1},
	{Type: event.TypeState, State: event.StateGenerating, Round: 0},
	{Type: event.TypeState, State: event.StateSharing, Round: 1, Before: true}, // completions are logged
	{Type: event.TypeState, State: event.StateBarrier, Round: 2, Before: true}, // and shared
	{Type: event.TypeState, State: event.StateUpdating, Round: 2},              // the training set is logged
	{Type: event.TypeState, State: event.StateCheckpoint, Round: 3},
	{Type: event.TypeState, State: event.StateWaiting, Round: 3}, // a background checkpoint is running
	{Type: event.TypeRound, Round: 4, Before: true},              // updated, not reported
	{Type: event.TypeState, State: event.StateReplaying, Round: 3},
	{Type: event.TypeRound, Round: 5}, // reported, but the Done record is not logged
	{Type: event.TypeCheckpoint, Round: 6, Before: true},
	{Type: event.TypeState, State: event.StateUpdating, Round: 7, Engine: true},
	{Type: event.TypeState, State: event.StateGenerating, Round: 8, Engine: true},
	{Type: event.TypeState, State: event.StateCheckpoint, Round: 10},
	{Type: event.TypeCheckpoint, Round: 10, Before: true},
}

// A node that is killed at every point of a round ends exactly like one that is not, and reports every round.
func TestKilledAtEveryPoint(t *testing.T) {
	t.Parallel()
	config := func(c *configs.Config) { c.NumTransplantTrees, c.Rounds, c.SwarmSize, c.CheckpointEvery = 2, 10, 2, 3 }
	pair := func(run string) (protocol.Start, protocol.Start) {
		server := broker(t, run)
		var starts [2]protocol.Start
		for i := range starts {
			starts[i] = assignment(t, server, run, t.TempDir(), config)
			starts[i].Node, starts[i].Index, starts[i].Members = fmt.Sprintf("node_%d", i), i, protocol.Members("node_0", "node_1")
		}
		return starts[0], starts[1]
	}
	a, b := pair("calm")
	file := filepath.Join(a.Dir, checkpointName(10)+checkpointSuffix)
	calm, peer := begin(t, a), begin(t, b)
	calm.wait, peer.wait = 4*soon, 4*soon
	calm.ends(ExitDone)
	peer.ends(ExitDone)
	want := newLedger(t)
	want.take(calm, 0)
	require.Equal(t, 10, want.recorded())
	calmFile, err := os.ReadFile(file)
	require.NoError(t, err)
	external := 0
	for _, r := range want.rounds {
		external += r.TrainedExternal
	}
	require.Positive(t, external, "nobody learns from the other: nothing is compared")

	a, b = pair("storm")
	peer = begin(t, b)
	peer.wait = 8 * soon
	got, met := newLedger(t), 0
	for _, p := range append(points, point{Type: "never"}) {
		a.Recorded = got.recorded()
		l, _ := beginMortal(t, a, p)
		code := l.dies()
		got.take(l, a.Recorded)
		switch {
		case code == ExitDone && p.Type == "never":
		case code == ExitDone:
			t.Logf("%s: not met", p)
		case p.Engine:
			require.Contains(t, []int{ExitFailed, ExitMemory}, code, "%s: %v", p, l.failure())
			met++
		default:
			require.Equal(t, -1, code, "%s: %v", p, l.failure())
			met++
		}
		require.NoFileExists(t, filepath.Join(a.Dir, "restart.safetensors"))
	}
	peer.ends(ExitDone)
	require.Equal(t, len(points), met)
	require.Equal(t, want.rounds, got.rounds)
	require.Equal(t, want.checkpoints[10], got.checkpoints[10])
	stormFile, err := os.ReadFile(filepath.Join(a.Dir, checkpointName(10)+checkpointSuffix))
	require.NoError(t, err)
	require.True(t, bytes.Equal(calmFile, stormFile), "the last checkpoints differ")
	require.Positive(t, got.replayed)

	logged := 0
	for r, err := range journal.Rounds(a.Dir, 0) {
		require.NoError(t, err)
		require.NotNil(t, r.Generated)
		require.NotNil(t, r.Trained)
		require.NotNil(t, r.Done)
		require.Equal(t, want.rounds[r.Round], timeless(*r.Done.Event.Round))
		logged++
	}
	require.Equal(t, 10, logged)
	partial, err := filepath.Glob(filepath.Join(a.Dir, "*.tmp"))
	require.NoError(t, err)
	require.Empty(t, partial)
}

// flip flips a bit in the middle of a file.
func flip(t *testing.T, path string) {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	data[len(data)/2] ^= 4
	require.NoError(t, os.WriteFile(path, data, 0o644))
}

// The node restores damaged or missing files of its folder from the rest, or computes them again. It warns about
// everything that it skips.
func TestDamageIsMadeGood(t *testing.T) {
	t.Parallel()
	server := broker(t, "damage")
	config := func(c *configs.Config) { c.Rounds, c.CheckpointEvery = 6, 2 }
	whole := t.TempDir()
	l := begin(t, assignment(t, server, "damage", whole, config))
	l.ends(ExitDone)
	want := newLedger(t)
	want.take(l, 0)
	require.Equal(t, 6, want.recorded())
	name := func(dir string, round int, ext string) string { return filepath.Join(dir, checkpointName(round)+ext) }

	cases := []struct {
		name            string
		recorded        int
		harm            func(t *testing.T, dir string)
		start, replayed int
		computed        []int // rounds computed again
		warnings        []string
	}{
		{"nothing", 6, func(*testing.T, string) {}, 6, 0, nil, nil},
		{"the database has lost rounds", 3, func(*testing.T, string) {}, 6, 0, nil, nil},
		{"the newest checkpoint", 6, func(t *testing.T, dir string) { flip(t, name(dir, 6, ".safetensors")) }, 6, 2, nil,
			[]string{"checkpoint of round 6 not used: sha256 is", "that of round 4 and the journal instead"}},
		{"the newest checkpoint's file is missing", 6, func(t *testing.T, dir string) {
			require.NoError(t, os.Remove(name(dir, 6, ".safetensors")))
		}, 6, 2, nil, []string{"checkpoint of round 6 not used: No such file"}},
		{"both checkpoints", 6, func(t *testing.T, dir string) {
			flip(t, name(dir, 6, ".safetensors"))
			flip(t, name(dir, 4, ".json"))
		}, 6, 6, nil, []string{"checkpoint checkpoint-00000004.json not used", "using the first weights and the journal instead"}},
		{"both checkpoints, and the journal in the middle", 6, func(t *testing.T, dir string) {
			flip(t, name(dir, 6, ".safetensors"))
			flip(t, name(dir, 4, ".safetensors"))
			flip(t, filepath.Join(dir, "journal-00000002.log"))
		}, -1, -1, []int{4, 5}, []string{"journal not used from round ", "the node computes these rounds again"}},
		{"everything but the newest checkpoint, and the database has lost a round", 5, func(t *testing.T, dir string) {
			logs, _ := filepath.Glob(filepath.Join(dir, "journal-*.log"))
			for _, log := range logs {
				require.NoError(t, os.Remove(log))
			}
			require.NoError(t, os.Remove(name(dir, 4, ".safetensors")))
		}, 0, 0, []int{0, 1, 2, 3, 4, 5}, []string{"checkpoint of round 6 not used: round 5 is neither in the database nor complete in the journal"}},
	}
	for _, k := range cases {
		t.Run(k.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "node")
			require.NoError(t, os.CopyFS(dir, os.DirFS(whole)))
			k.harm(t, dir)
			start := assignment(t, server, "damage", dir, config)
			start.Recorded = k.recorded
			l := begin(t, start)
			l.ends(ExitDone)
			got := newLedger(t)
			var last event.Loaded
			var warnings []string
			computed, told := map[int]bool{}, map[int]bool{}
			for _, e := range l.events {
				switch {
				case e.Loaded != nil:
					last = *e.Loaded
				case e.Type == event.TypeWarning:
					warnings = append(warnings, e.Message)
				case e.State == event.StateGenerating:
					computed[e.RoundIndex] = true
				case e.Round != nil:
					require.Equal(t, want.rounds[e.Round.Round], timeless(*e.Round))
					told[e.Round.Round] = true
				}
			}
			if k.start >= 0 {
				require.Equal(t, k.start, last.StartRound)
				require.Equal(t, k.replayed, last.ReplayedRounds)
				require.Len(t, computed, len(k.computed))
			}
			for _, round := range k.computed {
				require.True(t, computed[round], "round %d", round)
			}
			for round := k.recorded; round < 6; round++ {
				require.True(t, told[round], "round %d", round)
			}
			for _, part := range k.warnings {
				require.Contains(t, strings.Join(warnings, "\n"), part)
			}
			if k.warnings == nil {
				require.Empty(t, warnings)
			}
			got.take(l, 0)
			require.Equal(t, want.checkpoints[6], got.checkpoints[6])
		})
	}
}

// A failed read is not damage: the node ends and deletes nothing. Once the file can be read, it continues.
func TestAFailedReadCostsNothing(t *testing.T) {
	t.Parallel()
	server := broker(t, "unreadable")
	config := func(c *configs.Config) { c.Rounds, c.CheckpointEvery = 6, 2 }
	whole := t.TempDir()
	l := begin(t, assignment(t, server, "unreadable", whole, config))
	l.ends(ExitDone)
	want := newLedger(t)
	want.take(l, 0)

	for _, k := range []struct {
		file     string
		recorded int // with 3, the node needs the journal from round 3 on
	}{
		{checkpointName(6) + ".safetensors", 6},
		{checkpointName(6) + ".json", 6},
		{"journal-00000002.log", 3},
	} {
		t.Run(k.file, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "node")
			require.NoError(t, os.CopyFS(dir, os.DirFS(whole)))
			path := filepath.Join(dir, k.file)
			before := names(t, dir)
			require.NoError(t, os.Rename(path, dir+".moved"))
			require.NoError(t, os.Symlink(filepath.Base(path), path)) // a loop: every open fails
			start := assignment(t, server, "unreadable", dir, config)
			start.Recorded = k.recorded
			l := begin(t, start)
			l.ends(ExitFailed)
			require.Contains(t, strings.ToLower(l.failure().Message), "too many levels of symbolic links")
			require.Contains(t, []string{event.CauseEngine, event.CauseUnknown}, l.failure().Cause, "a restart can help")

			require.NoError(t, os.Rename(dir+".moved", path))
			require.Subset(t, names(t, dir), before)
			l = begin(t, start)
			l.ends(ExitDone)
			require.NotContains(t, l.states(), event.StateGenerating)
			got := newLedger(t)
			got.take(l, k.recorded)
			require.Equal(t, want.checkpoints[6], got.checkpoints[6])
		})
	}
}

// names returns the names of the files in a folder.
func names(t *testing.T, dir string) (list []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, entry := range entries {
		list = append(list, entry.Name())
	}
	return list
}

// A journal of another run is an error, not damage.
func TestAnotherSeedsJournalIsRefused(t *testing.T) {
	t.Parallel()
	server := broker(t, "seed")
	dir := t.TempDir()
	l := begin(t, assignment(t, server, "seed", dir, func(c *configs.Config) { c.Rounds, c.CheckpointEvery = 2, 5 }))
	l.ends(ExitDone)
	paths, err := filepath.Glob(filepath.Join(dir, "checkpoint-*"))
	require.NoError(t, err)
	for _, path := range paths {
		require.NoError(t, os.Remove(path))
	}
	l = begin(t, assignment(t, server, "seed", dir, func(c *configs.Config) { c.Rounds, c.CheckpointEvery, c.Seed = 2, 5, 77 }))
	l.ends(ExitConfig)
	require.Contains(t, l.failure().Message, "belongs to another node, seed or run")
	require.Contains(t, l.failure().Message, ". Try: ")
}

// The first SIGTERM works like the launcher's stop: the node writes a checkpoint and ends. The second one ends it
// at once, in any state.
func TestSIGTERM(t *testing.T) {
	t.Parallel()
	server := broker(t, "term")
	start := assignment(t, server, "term", t.TempDir(), func(c *configs.Config) { c.Rounds, c.CheckpointEvery = 1000, 1000 })
	l, cmd := beginMortal(t, start, point{Type: "never"})
	l.await("round", func(e event.Event) bool { return e.Type == event.TypeRound })
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	l.ends(ExitDone)
	rewards, hash := l.rounds()
	require.NotEmpty(t, hash)
	require.FileExists(t, filepath.Join(start.Dir, checkpointName(len(rewards))+".json"))
	states := l.states()
	require.Equal(t, event.StateStopped, states[len(states)-1])

	start = assignment(t, server, "term", t.TempDir(), func(c *configs.Config) { c.NumTrainSamples, c.NumGenerations = 100, 64 })
	l, cmd = beginMortal(t, start, point{Type: "never"})
	l.await("generating", func(e event.Event) bool { return e.State == event.StateGenerating })
	began := time.Now()
	for gone := false; !gone; {
		_ = cmd.Process.Signal(syscall.SIGTERM) // two signals may arrive as one; the last may be too late
		select {
		case <-l.read:
			gone = true
		case <-time.After(20 * time.Millisecond):
		}
	}
	l.ends(ExitFailed)
	require.Less(t, time.Since(began), 5*time.Second)
}

// A replayed round costs its update, and no generation. The test logs the time. A limit in seconds would depend on
// the machine's other load.
func TestReplayGeneratesNothing(t *testing.T) {
	t.Parallel()
	const rounds = 12
	start := memoryAssignment(t, "cheap", func(c *configs.Config) { c.Rounds, c.CheckpointEvery = rounds, 100 })
	l, _ := beginMortal(t, start, point{Type: event.TypeRound, Round: rounds - 1})
	require.Equal(t, -1, l.dies())
	var update, journaled, step float64
	for _, e := range l.events {
		if e.Round != nil {
			update, journaled, step = update+e.Round.UpdateTime, journaled+e.Round.JournalTime, step+e.Round.StepTime
		}
	}
	start.Recorded = rounds
	again := beginSlow(t, start)
	again.ends(ExitDone)
	replayed := again.await("loaded again", func(e event.Event) bool { return e.Loaded != nil && e.Loaded.ReplayedRounds > 0 }).Loaded
	require.Equal(t, rounds, replayed.ReplayedRounds)
	share, ratio := journaled/step, replayed.ReplaySeconds/update
	t.Logf("a round: %.1f ms, of which its update %.1f ms and the journal %.2f ms (%.2f %%); replayed in %.1f ms: %.2f of the update",
		1e3*step/rounds, 1e3*update/rounds, 1e3*journaled/rounds, 100*share, 1e3*replayed.ReplaySeconds/rounds, ratio)
	require.NotContains(t, again.states(), event.StateGenerating)
}
