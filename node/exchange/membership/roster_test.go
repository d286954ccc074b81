package membership

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/node/protocol"
)

func lineupOf(t testing.TB, local int, barrier bool) *lineup {
	var members []protocol.Member
	for i := range local {
		members = append(members, protocol.Member{Node: fmt.Sprintf("node_%d", i)})
	}
	l, err := newLineup(members, 100, barrier, 1)
	require.NoError(t, err)
	return l
}

func work(l *lineup, node string, round int) {
	l.progress(l.find(node), round, event.StateGenerating)
}

func TestWhoIsWaitedFor(t *testing.T) {
	for _, c := range []struct {
		name    string
		local   int
		barrier bool
		do      func(*lineup)
		absent  []string
		newest  int
	}{
		{"a newcomer begins two rounds on and is waited for", 1, true, func(l *lineup) {
			work(l, "node_0", 7)
			l.join("a", "w", l.first(-1), 0, "")
			require.Equal(t, 9, l.find("a").From)
			work(l, "a", 9)
		}, nil, 7},
		{"one round behind is the barrier's work", 2, true, func(l *lineup) {
			l.join("a", "w", 2, 0, "")
			work(l, "a", 9)
			work(l, "node_1", 10)
		}, nil, 10},
		{"two rounds behind is lagging", 2, true, func(l *lineup) {
			l.join("a", "w", 2, 0, "")
			work(l, "a", 8)
			work(l, "node_1", 10)
		}, []string{"a"}, 10},
		{"it is back when it has caught up", 2, true, func(l *lineup) {
			l.join("a", "w", 2, 0, "")
			work(l, "a", 8)
			work(l, "node_1", 10)
			work(l, "a", 9)
		}, nil, 10},
		{"what it shared counts as where it is", 2, true, func(l *lineup) {
			l.join("a", "w", 2, 0, "")
			work(l, "a", 3)
			l.share(l.find("a"), 9)
			work(l, "node_1", 10)
		}, nil, 10},
		{"who was cut off and went on alone is not waited for", 1, true, func(l *lineup) {
			work(l, "node_0", 10)
			l.join("a", "w", 2, 13, "")
		}, []string{"a"}, 10},
		{"a claim moves nobody but the one who makes it", 1, true, func(l *lineup) {
			work(l, "node_0", 10)
			l.join("a", "w", 2, 10, "")
			l.join("b", "x", 2, 10, "")
			work(l, "b", 99)
		}, []string{"b"}, 10},
		{"nobody lags without a barrier", 1, false, func(l *lineup) {
			l.join("a", "w", 2, 0, "")
			work(l, "node_0", 50)
		}, nil, 50},
		{"silence is absence without a barrier, too", 1, false, func(l *lineup) {
			l.silence([]*assignment{l.join("a", "w", 2, 0, "")}, true)
		}, []string{"a"}, 0},
		{"a swarm of workers alone goes by the most of them", 0, true, func(l *lineup) {
			for _, node := range []string{"a", "b", "c"} {
				l.join(node, node, 2, 0, "")
				work(l, node, 10)
			}
			work(l, "c", 90)
		}, []string{"c"}, 10},
		{"a node of this host is never absent", 2, true, func(l *lineup) { work(l, "node_0", 50) }, nil, 50},
		{"a lost node of this host moves nothing", 2, true, func(l *lineup) {
			work(l, "node_0", 5)
			l.leave(l.find("node_1"), "", "given up")
			work(l, "node_1", 50)
		}, nil, 5},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := lineupOf(t, c.local, c.barrier)
			c.do(l)
			var absent []string
			for _, m := range l.members() {
				if m.Absent {
					absent = append(absent, m.Node)
				}
			}
			require.Equal(t, c.absent, absent)
			require.Equal(t, c.newest, l.newest)
		})
	}
}

// In any sequence of events, the barrier doesn't wait for nodes that are silent, lag or have left. The version changes
// exactly when the members change. The reported changes add up to the current state.
func TestTheRosterHoldsWhateverHappens(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		barrier := rapid.Bool().Draw(t, "barrier")
		locals := rapid.IntRange(0, 2).Draw(t, "local")
		var members []protocol.Member
		for i := range locals {
			members = append(members, protocol.Member{Node: fmt.Sprintf("node_%d", i)})
		}
		l, err := newLineup(members, 100, barrier, 5)
		require.NoError(t, err)
		workers := []string{"u", "v", "w"}
		told := map[string]bool{} // whether a listener believes that the barrier waits for the node
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			before, version, newest := slices.Clone(l.members()), l.version, l.newest
			seatOf := func(worker string) *assignment { return l.find(worker + "_0") }
			worker := rapid.SampledFrom(workers).Draw(t, "worker")
			round := rapid.IntRange(-5, 120).Draw(t, "round")
			switch rapid.SampledFrom([]string{"join", "work", "share", "local", "silent", "heard", "leave"}).Draw(t, "step") {
			case "join":
				from := l.first(-1)
				if s := seatOf(worker); s != nil && rapid.Bool().Draw(t, "former life") {
					from = s.From
				}
				s := l.join(worker+"_0", worker, from, round, "")
				require.GreaterOrEqual(t, s.round, min(from, 100))
			case "work":
				if s := seatOf(worker); s != nil {
					l.progress(s, round, event.StateGenerating)
				}
			case "share":
				if s := seatOf(worker); s != nil && s.gone == "" {
					l.share(s, max(round, 0))
				}
			case "local":
				if locals > 0 {
					l.progress(l.assignments[rapid.IntRange(0, locals-1).Draw(t, "local")], round, event.StateGenerating)
				}
			case "silent", "heard":
				if s := seatOf(worker); s != nil {
					l.silence([]*assignment{s}, rapid.Bool().Draw(t, "silent"))
				}
			case "leave":
				if s := seatOf(worker); s != nil {
					l.leave(s, "stopped", "left")
				}
			}
			require.GreaterOrEqual(t, l.newest, newest, "the swarm's round never falls")
			require.LessOrEqual(t, l.newest, 100)
			if !slices.Equal(before, l.members()) {
				require.Greater(t, l.version, version, "a change bumps the version")
			}
			for _, m := range l.members() {
				s := l.find(m.Node)
				require.Empty(t, s.gone)
				require.Equal(t, m, s.Member)
				if s.worker == "" {
					require.False(t, m.Absent)
					continue
				}
				lags := barrier && (s.round < l.newest-maxBehind || s.round > l.newest+maxAhead)
				require.Equal(t, s.silent || lags, m.Absent)
			}
			for _, c := range l.unreported() {
				told[c.assignment.Node] = !c.absent
			}
			for _, s := range l.assignments {
				if s.worker != "" {
					require.Equal(t, s.gone == "" && !s.Absent, told[s.Node], "%s", s.Node)
				}
			}
		}
	})
}

func BenchmarkBeatOfTenThousand(b *testing.B) {
	l := lineupOf(b, 1, true)
	for i := range 10_000 {
		l.join(fmt.Sprintf("n%d", i), fmt.Sprintf("w%d", i/10), 2, 0, "")
	}
	l.unreported()
	l.members()
	round := 0
	for b.Loop() {
		round = (round + 1) % 2
		work(l, "n77", 2+round)
	}
}

// If rollouts pass through the coordinator, the barrier doesn't keep waiting for a node that claims progress but shares
// nothing.
func TestWhoOnlyClaimsIsNotWaitedFor(t *testing.T) {
	l := lineupOf(t, 1, true)
	l.offers = true
	liar, honest := l.join("liar", "w", 2, 0, ""), l.join("honest", "h", 2, 0, "")
	for round := 1; round <= 6; round++ {
		l.progress(l.find("node_0"), round, event.StateGenerating)
		l.progress(liar, round, event.StateGenerating)
		l.progress(honest, round, event.StateGenerating)
		if round >= 2 {
			l.share(honest, round)
		}
	}
	require.True(t, liar.Absent)
	require.False(t, honest.Absent)
	l.share(liar, 6)
	require.False(t, liar.Absent, "it has shared")
}

// Without a barrier, a worker may share as many rounds as it can invent. Newcomers begin beside the others all the
// same, as long as these are not fewer.
func TestFastWorkersMoveNoRoundWithoutABarrier(t *testing.T) {
	for _, c := range []struct{ liars, friends int }{{1, 1}, {1, 3}, {2, 3}, {3, 3}} {
		l := lineupOf(t, 0, false)
		l.offers, l.rounds = true, 1000
		var liars []*assignment
		for i := range c.liars {
			liars = append(liars, l.join(fmt.Sprintf("eve_%d", i), fmt.Sprintf("eve%d", i), 2, 0, ""))
		}
		for i := range c.friends {
			l.join(fmt.Sprintf("friend_%d", i), fmt.Sprintf("friend%d", i), 2, 0, "")
		}
		for round := 2; round < 12; round++ {
			for i := range c.friends {
				l.share(l.find(fmt.Sprintf("friend_%d", i)), round)
			}
			for _, liar := range liars {
				for range 50 {
					l.share(liar, liar.offered+1)
				}
			}
			require.LessOrEqual(t, l.newest, round+1, "%+v", c)
		}
		require.InDelta(t, 13, l.first(-1), 1, "%+v: friends are in round 11", c)
	}
}

// A stranger's claims, for any number of nodes, don't move the swarm's round. Nor do nodes that shared once and stall
// hold it back.
func TestTheSwarmsRoundIsWhatMostWorkersHaveShared(t *testing.T) {
	l := lineupOf(t, 0, true)
	l.offers, l.rounds, l.now, l.trust = true, 1000, time.Unix(1_000_000, 0), newTrust(time.Minute)
	a, b := l.join("a", "anna", 2, 0, ""), l.join("b", "bob", 2, 0, "")
	step := func(round int) {
		for _, s := range []*assignment{a, b} {
			l.progress(s, round, event.StateGenerating)
			l.share(s, round)
			l.progress(s, round+1, event.StateGenerating)
		}
	}
	for round := 2; round <= 9; round++ {
		step(round)
	}
	require.Equal(t, 10, l.newest)
	var strangers []*assignment
	for i := range 8 {
		s := l.join(fmt.Sprintf("eve_%d", i), "eve", l.first(-1), 0, "")
		l.progress(s, 200, event.StateGenerating)
		strangers = append(strangers, s)
	}
	require.Equal(t, 10, l.newest, "a claim of eight nodes that shared nothing")
	require.False(t, a.Absent || b.Absent)
	for _, s := range strangers {
		l.share(s, s.From)
		l.progress(s, 200, event.StateGenerating)
	}
	require.Equal(t, 10, l.newest, "eight nodes are one worker")
	require.False(t, a.Absent || b.Absent)

	for i := range 3 { // more strangers than friends; they share once and then stall
		s := l.join(fmt.Sprintf("mallory_%d", i), fmt.Sprintf("mallory%d", i), l.first(-1), 0, "")
		l.share(s, s.From)
		l.progress(s, s.From, event.StateBarrier)
		strangers = append(strangers, s)
	}
	for round := 10; round < 40; round++ {
		step(round)
		l.now = l.now.Add(2 * time.Minute) // the friends' barriers pass at their deadline, or at once
		l.overdue()
		require.LessOrEqual(t, round, l.newest+2, "what the friends share next would be refused")
	}
	require.GreaterOrEqual(t, l.newest, 38)
	require.False(t, a.Absent || b.Absent)
	for _, s := range strangers {
		require.True(t, s.Absent, s.Node)
	}
}
