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

// story is a swarm whose coordinator and nodes die at any moment. A round's result depends only on its node and number,
// as when lost rounds are recomputed with the same result.
type story struct {
	t       *rapid.T
	path    string
	s       *Store
	now     float64
	unsent  []event.Event            // not recorded yet; lost if the coordinator dies
	journal map[string][]event.Event // finished rounds of each node
	told    []event.Event
	starts  int
}

const storyRounds = 6

var storyNodes = []string{"node_0", "node_1"}

func storyReward(node string, round int) float64 { return float64(len(node)*7+round*3%5) / 16 }

func (y *story) start() {
	s, err := Open(context.Background(), y.path, Options{})
	require.NoError(y.t, err)
	run := aRun()
	y.now++
	run.Started = y.now
	require.NoError(y.t, s.StartRun(context.Background(), run))
	y.s = s
	y.starts++
	r, err := OpenReader(context.Background(), y.path)
	require.NoError(y.t, err)
	defer r.Close()
	recorded, err := r.Recorded(context.Background(), testRun)
	require.NoError(y.t, err)
	for _, node := range storyNodes {
		// A node may repeat more than necessary.
		from := rapid.IntRange(0, recorded[node]).Draw(y.t, "told again from")
		for _, e := range y.journal[node][min(from, len(y.journal[node])):] {
			e.Replayed = true
			y.send(e)
		}
	}
}

func (y *story) send(e event.Event) {
	y.unsent = append(y.unsent, e)
	y.told = append(y.told, e)
}

// write records the first n unsent events.
func (y *story) write(n int) {
	for _, e := range y.unsent[:n] {
		require.NoError(y.t, y.s.Record(context.Background(), e))
	}
	require.NoError(y.t, y.s.Flush(context.Background()))
	y.unsent = y.unsent[n:]
}

func (y *story) round(node string) {
	done := len(y.journal[node])
	if done == storyRounds {
		return
	}
	y.now++
	e := aRound(node, done, y.now, storyReward(node, done))
	y.journal[node] = append(y.journal[node], e)
	y.send(e)
}

// nodeDies loses the part of the journal that was not synced: those rounds are recomputed.
func (y *story) nodeDies(node string) {
	lost := min(len(y.journal[node]), rapid.IntRange(0, 3).Draw(y.t, "lost"))
	y.journal[node] = y.journal[node][:len(y.journal[node])-lost]
}

func (y *story) coordinatorDies() {
	y.write(rapid.IntRange(0, len(y.unsent)).Draw(y.t, "written"))
	y.unsent = nil
	require.NoError(y.t, y.s.Close())
	for _, node := range storyNodes {
		y.nodeDies(node)
	}
	y.start()
}

// TestEveryRoundOnceWhateverDies combines deaths, replays, repetitions and recomputations. The database ends with every
// (run, node, round) once, with its parts, and with the same sums as an undisturbed run.
func TestEveryRoundOnceWhateverDies(t *testing.T) {
	dir, files := t.TempDir(), 0
	rapid.Check(t, func(t *rapid.T) {
		files++
		y := &story{t: t, path: filepath.Join(dir, fmt.Sprint(files, ".db")), now: 100, journal: map[string][]event.Event{}}
		y.start()
		for range rapid.IntRange(0, 40).Draw(t, "steps") {
			node := rapid.SampledFrom(storyNodes).Draw(t, "node")
			switch rapid.IntRange(0, 9).Draw(t, "what") {
			case 0:
				y.coordinatorDies()
			case 1:
				y.nodeDies(node)
			case 2:
				y.write(rapid.IntRange(0, len(y.unsent)).Draw(t, "written"))
			case 3:
				if len(y.told) > 0 {
					y.unsent = append(y.unsent, rapid.SampledFrom(y.told).Draw(t, "repeated"))
				}
			default:
				y.round(node)
			}
		}
		y.coordinatorDies()
		for _, node := range storyNodes {
			for len(y.journal[node]) < storyRounds {
				y.round(node)
			}
		}
		y.write(len(y.unsent))
		defer func() { require.NoError(t, y.s.Close()) }()

		requireSums(t, y.s)
		var rounds, tasks, peers, wrong int
		require.NoError(t, y.s.db.QueryRow(`SELECT (SELECT count(*) FROM rounds), (SELECT count(*) FROM task_rewards), (SELECT count(*) FROM peers),
  (SELECT count(*) FROM attempts WHERE (state = 'running') != (ended IS NULL) OR attempt > ?)`, y.starts).Scan(&rounds, &tasks, &peers, &wrong))
		all := storyRounds * len(storyNodes)
		require.Equal(t, []int{all, 2 * all, all, 0}, []int{rounds, tasks, peers, wrong})
		r, err := OpenReader(context.Background(), y.path)
		require.NoError(t, err)
		defer r.Close()
		recorded, err := r.Recorded(context.Background(), testRun)
		require.NoError(t, err)
		got, err := r.RoundRewards(context.Background(), testRun)
		require.NoError(t, err)
		for _, x := range got {
			require.InDelta(t, storyReward(x.Node, x.Round), x.Reward, 0)
		}
		snapshot, err := r.Snapshot(context.Background(), testRun)
		require.NoError(t, err)
		require.Len(t, snapshot.Attempts, y.starts)
		for _, n := range snapshot.Nodes {
			require.Equal(t, storyRounds, recorded[n.Node])
			want := 0.0
			for round := range storyRounds {
				want += storyReward(n.Node, round)
			}
			require.InDelta(t, want, n.CumulativeReward, 1e-9)
		}
	})
}

func TestAReplayedRoundFillsAGapAndNothingElse(t *testing.T) {
	s := startedStore(t, Options{})
	again := func(e event.Event) event.Event { e.Replayed = true; return e }
	record(t, s, aRound("node_0", 0, 200, 0.5), aRound("node_0", 3, 230, 0.5))
	record(t, s,
		again(aRound("node_0", 0, 999, 0.9)), // recorded, whether newer or not
		again(aRound("node_0", 1, 210, 0.25)),
		again(event.Event{Type: event.TypeState, Run: testRun, Node: "node_0", Time: 999, State: event.StateFailed}),
		again(event.Event{Type: event.TypeWarning, Run: testRun, Node: "node_0", Time: 999, Message: "told before"}),
		again(event.Event{Type: event.TypeCheckpoint, Run: testRun, Node: "node_0", Time: 999, Checkpoint: &event.Checkpoint{Round: 9}}),
		again(aRound("node_7", 0, 210, 0.25))) // unknown node
	got := snapshot(t, s, testRun)
	require.InDelta(t, 1.25, got.Nodes[0].CumulativeReward, 1e-12)
	require.InDelta(t, 230, got.Nodes[0].LastEvent, 0, "told again isn't heard of")
	require.Equal(t, event.StateQueued, got.Nodes[0].State)
	require.Len(t, got.Nodes, 3)

	r, err := OpenReader(t.Context(), s.Path())
	require.NoError(t, err)
	defer r.Close()
	recorded, err := r.Recorded(t.Context(), testRun)
	require.NoError(t, err)
	require.Equal(t, map[string]int{"node_0": 2, "node_1": 0, "node_7": 1}, recorded, "round 2 is missing")
	entries, err := r.Timeline(t.Context(), testRun, 0, 10)
	require.NoError(t, err)
	require.Empty(t, entries)
	checkpoints, err := r.Checkpoints(t.Context(), testRun)
	require.NoError(t, err)
	require.Empty(t, checkpoints)

	record(t, s, aRound("node_0", 1, 300, 0.75)) // recomputed with another result: the node's current weights come from it
	require.InDelta(t, 1.75, snapshot(t, s, testRun).Nodes[0].CumulativeReward, 1e-12)
	requireSums(t, s)
}

func TestFindRunIsTheNewestOfThatSeed(t *testing.T) {
	s := openStore(t, filepath.Join(t.TempDir(), "swarm.db"), Options{})
	r, err := OpenReader(t.Context(), s.Path())
	require.NoError(t, err)
	defer r.Close()
	found, err := r.FindRun(t.Context(), "sapo-4-4", 7)
	require.NoError(t, err)
	require.Nil(t, found)
	for i, x := range []struct {
		run  string
		seed int64
	}{{"sapo-4-4-9", 7}, {"sapo-4-4-10", 7}, {"sapo-4-4-11", math.MaxInt64}} {
		run := aRun()
		run.Run, run.Seed, run.Started = x.run, x.seed, 100
		run.PricePerHour, run.PriceCurrency = 1.29, "$"
		require.NoError(t, s.StartRun(t.Context(), run), i)
	}
	found, err = r.FindRun(t.Context(), "sapo-4-4", 7)
	require.NoError(t, err)
	require.Equal(t, "sapo-4-4-10", found.Run, "of one instant the higher number")
	require.Equal(t, []any{int64(99), "b", 1.29, "$"}, []any{found.StartTicks, found.BootID, found.PricePerHour, found.PriceCurrency})
	found, err = r.FindRun(t.Context(), "sapo-4-4", math.MaxInt64)
	require.NoError(t, err)
	require.Equal(t, "sapo-4-4-11", found.Run)
	found, err = r.FindRun(t.Context(), "", 7)
	require.NoError(t, err)
	require.Nil(t, found)
}

func TestCheckpointsOfARun(t *testing.T) {
	s := startedStore(t, Options{})
	at := func(node string, round int, time float64) event.Event {
		return event.Event{Type: event.TypeCheckpoint, Run: testRun, Node: node, Time: time, Checkpoint: &event.Checkpoint{
			Round: round, Path: fmt.Sprint("c", round), Bytes: 5, WeightHash: "h", Seconds: 2, Pause: 0.5,
		}}
	}
	record(t, s, at("node_10", 5, 300), at("node_2", 10, 310), at("node_2", 5, 305))
	r, err := OpenReader(t.Context(), s.Path())
	require.NoError(t, err)
	defer r.Close()
	got, err := r.Checkpoints(t.Context(), testRun)
	require.NoError(t, err)
	require.Equal(t, []NodeCheckpoint{
		{"node_2", 305, event.Checkpoint{Round: 5, Path: "c5", Bytes: 5, WeightHash: "h", Seconds: 2, Pause: 0.5}},
		{"node_2", 310, event.Checkpoint{Round: 10, Path: "c10", Bytes: 5, WeightHash: "h", Seconds: 2, Pause: 0.5}},
		{"node_10", 300, event.Checkpoint{Round: 5, Path: "c5", Bytes: 5, WeightHash: "h", Seconds: 2, Pause: 0.5}},
	}, got)
	newest, err := r.Checkpoint(t.Context(), testRun, "node_2")
	require.NoError(t, err)
	require.Equal(t, got[1].Checkpoint, *newest)
}
