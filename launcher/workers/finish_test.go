package workers

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sapo-swarm/swarm/node/exchange/membership"
)

// A run whose coordinator has no nodes is done according to the recorded and shared rounds, never according to a
// worker's claim.
func TestARunIsDoneByItsRecordedRounds(t *testing.T) {
	const rounds, patience = 10, time.Minute
	began := time.Unix(1_000_000, 0)
	node := func(name string, shared int, here bool) membership.NodeStatus {
		return membership.NodeStatus{Node: name, Shared: shared, Here: here, Gone: !here}
	}
	for _, c := range []struct {
		name     string
		folder   bool
		nodes    []membership.NodeStatus
		recorded map[string]int
		now, end bool // whether it is over at once, and after the whole patience without any event
	}{
		{"nobody has come", false, nil, nil, false, false},
		{"a stranger says done and records nothing", false, []membership.NodeStatus{{Node: "liar", State: "done", Round: rounds, Shared: -1, Here: true}}, nil, false, false},
		{"all rounds are there", false, []membership.NodeStatus{node("a", 9, true)}, map[string]int{"a": 10}, true, true},
		{"and its worker has left", false, []membership.NodeStatus{node("a", 9, false)}, map[string]int{"a": 10}, true, true},
		{"another is at it", false, []membership.NodeStatus{node("a", 9, true), node("b", 8, true)}, map[string]int{"a": 10, "b": 9}, false, true},
		{"another has begun late", false, []membership.NodeStatus{node("a", 9, true), node("b", -1, true)}, map[string]int{"a": 10}, false, true},
		{"another went away halfway", false, []membership.NodeStatus{node("a", 9, true), node("b", 4, false)}, map[string]int{"a": 10, "b": 5}, true, true},
		{"rounds invented while others work", false, []membership.NodeStatus{node("liar", -1, true), node("a", 4, true)}, map[string]int{"liar": 10, "a": 5}, false, false},
		{"rounds invented while others are away", false, []membership.NodeStatus{node("liar", 5, true), node("a", 4, false)}, map[string]int{"liar": 10, "a": 5}, false, false},
		{"nobody counts what is shared through a folder", true, []membership.NodeStatus{node("a", -1, true)}, map[string]int{"a": 10}, true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := finish{rounds: rounds, counted: !c.folder, settled: began, patience: patience, nodes: map[string]*finisher{}}
			require.Equal(t, c.now, f.over(began, c.recorded, c.nodes))
			require.Equal(t, c.end, f.over(began.Add(2*patience), c.recorded, c.nodes))
		})
	}
}

// A run is not done before a node has all its rounds recorded, regardless of what workers claim.
func TestNoLieEndsARun(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const rounds = 5
		f := finish{rounds: rounds, counted: rapid.Bool().Draw(t, "counted"), settled: time.Unix(100, 0), patience: time.Minute, nodes: map[string]*finisher{}}
		now, recorded := time.Unix(100, 0), map[string]int{}
		var nodes []membership.NodeStatus
		for i := range rapid.IntRange(1, 4).Draw(t, "nodes") {
			nodes = append(nodes, membership.NodeStatus{Node: fmt.Sprint(i), Here: true})
		}
		for range rapid.IntRange(1, 20).Draw(t, "looks") {
			for i := range nodes {
				nodes[i].State = "done"
				nodes[i].Round, nodes[i].Shared = rapid.IntRange(0, 9).Draw(t, "round"), rapid.IntRange(-1, 9).Draw(t, "shared")
				nodes[i].Here = rapid.Bool().Draw(t, "here")
				recorded[nodes[i].Node] = min(rounds, recorded[nodes[i].Node]+rapid.IntRange(0, 2).Draw(t, "more"))
			}
			now = now.Add(time.Duration(rapid.IntRange(0, 50).Draw(t, "seconds")) * time.Second)
			most := 0
			for _, n := range recorded {
				most = max(most, n)
			}
			if f.over(now, recorded, nodes) && most < rounds {
				t.Fatalf("over with %v of %d rounds", recorded, rounds)
			}
		}
	})
}
