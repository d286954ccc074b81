package stats

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// resumed returns a run of 10 rounds: a first attempt with five rounds of 10 s each, an hour of pause, and a second
// attempt with `done` rounds of 4 s each.
func resumed(done int) store.Snapshot {
	s := store.Snapshot{
		Run: store.Run{Run: "r", Experiment: "e", State: store.RunRunning, Rounds: 10, Started: 100, Resumed: 3800, Attempts: 2,
			PricePerHour: 3.6, PriceCurrency: "$"},
		Attempts: []store.Attempt{
			{Attempt: 1, Started: 100, Seen: 200, Ended: 200, State: store.AttemptCrashed},
			{Attempt: 2, Started: 3800, Seen: 3820, State: store.RunRunning},
		},
		Nodes: []store.Node{{Node: "node_0", State: event.StateUpdating, LastRound: 4 + done, ReplayedRounds: 3, ReplaySeconds: 2, WorkingRound: 5}},
	}
	for i := range 5 + done {
		at := 110 + 10*float64(i)
		if i >= 5 {
			at = 3810 + 4*float64(i-5)
		}
		s.Recent = append(s.Recent, store.RoundReward{Round: i, Node: "node_0", Time: at, Reward: 0.5})
	}
	return s
}

func TestStatusOfAResumedRun(t *testing.T) {
	x := NewStatus(resumed(0), 3825, true)
	require.InDelta(t, 10, *x.SecondsPerRound, 0, "before two rounds of the newest attempt, the pace of the one before")
	require.InDelta(t, 40, *x.ETASeconds, 0, "five rounds, of which one may be over by now")
	require.InDelta(t, 100+20+5, x.ActiveSeconds, 0, "the pause isn't work; five seconds since it was last seen are")
	require.Equal(t, x.ActiveSeconds, x.ElapsedSeconds)
	require.InDelta(t, 3825, x.LastSeen, 0)
	require.Equal(t, []any{2, 3, "$"}, []any{x.Attempts, x.ReplayedRounds, x.PriceCurrency})
	require.InDelta(t, 0.125, *x.Cost, 1e-12)
	require.InDelta(t, 0.165, *x.ProjectedCost, 1e-12)
	require.Equal(t, []any{5, 3, 2.0}, []any{x.Nodes[0].WorkingRound, x.Nodes[0].ReplayedRounds, x.Nodes[0].ReplaySeconds})

	require.InDelta(t, 10, *NewStatus(resumed(1), 3825, true).SecondsPerRound, 0)
	early := resumed(2)
	early.Attempts[1].Seen = 3815
	x = NewStatus(early, 3815, true)
	require.InDelta(t, 4, *x.SecondsPerRound, 0, "two rounds of its own")
	require.InDelta(t, 3*4-1, *x.ETASeconds, 0)

	x = NewStatus(resumed(2), 3825+86400, true)
	require.InDelta(t, 130, x.ActiveSeconds, 0, "a clock set forward")
	require.Equal(t, x.ActiveSeconds, x.ElapsedSeconds)
	x = NewStatus(resumed(2), 0, true)
	require.InDelta(t, 120, x.ActiveSeconds, 0, "a clock set back")
	require.Equal(t, x.ActiveSeconds, x.ElapsedSeconds)

	free := resumed(2)
	free.Run.PricePerHour = 0
	x = NewStatus(free, 3825, true)
	require.Nil(t, x.PricePerHour)
	require.Nil(t, x.Cost)
	require.Nil(t, x.ProjectedCost)

	x = NewStatus(resumed(2), 9e9, false)
	require.Equal(t, StateCrashed, x.State)
	require.InDelta(t, 120, x.ActiveSeconds, 0, "of a crashed attempt until it was last seen")
	require.InDelta(t, 0.12, *x.Cost, 1e-12)
	require.Nil(t, x.ProjectedCost)
	require.Equal(t, x.ActiveSeconds, x.ElapsedSeconds)
	require.InDelta(t, 3820, x.LastSeen, 0)

	done := resumed(5)
	done.Run.State, done.Run.Ended, done.Attempts[1].Ended = store.RunDone, 3830, 3830
	x = NewStatus(done, 9e9, true)
	require.InDelta(t, 130, x.ActiveSeconds, 0)
	require.InDelta(t, 0.13, *x.Cost, 1e-12)
	text, err := json.Marshal(NewSummary(x, done.Recent))
	require.NoError(t, err)
	require.Contains(t, string(text), `"attempts":2`)
	require.Contains(t, string(text), `"replayed_rounds":3`)
}

// A round during which nodes were still loading does not predict later rounds: one node finished it before the pause,
// the other loaded, finished it, and then waited for the first.
func TestPaceCountsRoundsAfterAllNodesHaveLoaded(t *testing.T) {
	s := resumed(0)
	s.Nodes = append(s.Nodes, store.Node{Node: "node_1", State: event.StateUpdating, LastRound: 4})
	add := func(round int, at ...float64) {
		for i, time := range at {
			node := s.Nodes[i].Node
			s.Recent = append(s.Recent, store.RoundReward{Round: round, Node: node, Time: time, Reward: 0.5})
			s.Nodes[i].LastRound = round
		}
	}
	s.Run.Rounds = 36
	add(5, 199, 3810)
	add(6, 3859, 3860)
	s.Attempts[1].Seen = 3860
	x := NewStatus(s, 3860, true)
	require.InDelta(t, 10, *x.SecondsPerRound, 0, "50 s passed, nearly all of them while node_0 loaded")
	add(7, 3864, 3865)
	s.Attempts[1].Seen = 3865
	x = NewStatus(s, 3865, true)
	require.InDelta(t, 5, *x.SecondsPerRound, 0, "the first full round of this attempt")
	require.InDelta(t, 28*5, *x.ETASeconds, 0)

	s.Recent = s.Recent[len(s.Recent)-4:]
	s.Recent[0].Round, s.Recent[1].Round, s.Recent[2].Round, s.Recent[3].Round = 6, 6, 7, 7
	s.Recent[0].Time = 199
	x = NewStatus(s, 3865, true)
	require.Nil(t, x.SecondsPerRound, "no attempt has a full round")
	require.Nil(t, x.ETASeconds)
}

func TestPaceForgetsAClockThatWasSet(t *testing.T) {
	ends := []float64{10, 20, 30, 86440, 86450, 86460}
	require.InDelta(t, 10, Pace(ending(ends...), nil), 0, "forward")
	require.InDelta(t, 10, Pace(ending(5010, 5020, 5030, 1440, 1450), nil), 0, "back")
	require.True(t, math.IsNaN(Pace(ending(20, 10), nil)))
}

// TestStatusIsSaneWhateverTheClock checks that times in any order yield figures that are finite, non-negative and
// encodable.
func TestStatusIsSaneWhateverTheClock(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		at := func(label string) float64 { return rapid.Float64Range(-1e10, 1e10).Draw(t, label) }
		s := resumed(rapid.IntRange(0, 5).Draw(t, "done"))
		s.Run.Started, s.Run.Resumed = at("started"), at("resumed")
		for i := range s.Attempts {
			s.Attempts[i].Started, s.Attempts[i].Seen = at("began"), at("seen")
		}
		for i := range s.Recent {
			s.Recent[i].Time = at("end")
		}
		x := NewStatus(s, at("now"), rapid.Bool().Draw(t, "alive"))
		for _, v := range []*float64{x.ETASeconds, x.SecondsPerRound, &x.ElapsedSeconds, &x.ActiveSeconds, x.Cost, x.ProjectedCost} {
			if v != nil {
				require.GreaterOrEqual(t, *v, 0.0)
				require.False(t, math.IsNaN(*v) || math.IsInf(*v, 0))
			}
		}
		_, err := json.Marshal(x)
		require.NoError(t, err)
	})
}
