package e2e

import (
	"flag"
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/node/exchange/netlab"
)

// Flags that make net-test sets. The defaults are for every test run.
var (
	netCut      = flag.Duration("net.cut", 5*time.Second, "length of a cut")
	netDeadline = flag.Duration("net.deadline", 2*time.Second, "barrier_deadline in the partition test")
	netSlack    = flag.Duration("net.slack", 12*time.Second, "what a round may take beside waiting at the barrier, on a busy machine")
)

// roughWay returns the conditions of a mediocre link across half a continent.
func roughWay() netlab.Conditions {
	return netlab.Conditions{Delay: 30 * time.Millisecond, Jitter: 15 * time.Millisecond, Loss: 0.01, RateBytes: 1 << 20}
}

// A swarm on three hosts has slow and lossy links. It survives cuts in one and both directions, the death of the
// coordinator, and that of a worker's machine. No node's training pauses longer than the barrier's deadline plus one
// round. Afterward the coordinator's database has every round of every worker's node, once, equal to the worker's own
// database.
func TestPartitions(t *testing.T) {
	t.Parallel()
	s := newNetSwarm(t, 1, "anna", "ben")
	s.up(tinyRun("--rounds", "1000000", "--checkpoint-every", "5", "--seed", "3", "--max-restarts", "1000",
		"--set", fmt.Sprintf("barrier_deadline=%g", netDeadline.Seconds()))...)
	s.join("anna", "--nodes", "2")
	s.join("ben", "--nodes", "1")
	local := []string{"node_0", "node_1"}
	anna, ben := s.seated("anna", 2), s.seated("ben", 1)
	everybody := slices.Concat(local, anna, ben)
	s.more(3, everybody...)

	toAnna, toBen := s.lab.Link(netHub, "anna"), s.lab.Link(netHub, "ben")
	rough := roughWay()
	s.lab.Link("anna", "ben").Set(rough)
	toAnna.Set(rough)
	toBen.Set(rough)
	s.during("a rough way", everybody, func() { s.more(5, everybody...) })

	for _, c := range []struct {
		name      string
		hubToAnna bool
		annaToHub bool
	}{{"from the coordinator to anna", true, false}, {"from anna to the coordinator", false, true}, {"between anna and the coordinator", true, true}} {
		cut := rough
		cut.CutAB, cut.CutBA = c.hubToAnna, c.annaToHub
		began := time.Now()
		toAnna.Set(cut)
		wait(t, *netCut)
		toAnna.Set(rough)
		healed := time.Now()
		s.more(3, everybody...) // also of anna's: her rounds from the cut arrive, and she has reconnected
		s.unhindered("a cut "+c.name, slices.Concat(local, ben), began, time.Now())
		s.unhindered("a cut "+c.name, anna, began, healed) // by anna's own clock
	}

	t.Log("the coordinator dies")
	s.kill(netHub)
	wait(t, *netCut/2)
	s.start(netHub)
	s.more(3, everybody...)

	t.Log("ben's machine dies")
	s.during("the death of ben's machine", slices.Concat(local, anna), func() {
		s.kill("ben")
		wait(t, *netCut/2)
	})
	s.start("ben")
	s.more(3, everybody...)

	s.retire("anna", anna...)
	s.retire("ben", ben...)
	require.Equal(t, 128+int(syscall.SIGTERM), s.stop(netHub), s.running[netHub].log)
	s.wholeRounds()
	for _, worker := range []string{"anna", "ben"} {
		s.sameEverywhere(worker)
		t.Log(s.netTraffic(worker))
	}
	t.Logf("rounds: %v", s.rounds())
}

// A worker that is stopped while it is cut off keeps its undelivered events. The same command delivers them later.
func TestAWorkerStoppedWhileCutOffDeliversLater(t *testing.T) {
	t.Parallel()
	if *netCut < time.Minute {
		t.Skip("make net-test runs it: a stop waits 20 s for the coordinator")
	}
	s := newNetSwarm(t, 1, "ben")
	s.up(tinyRun("--rounds", "1000000", "--seed", "3", "--set", fmt.Sprintf("barrier_deadline=%g", netDeadline.Seconds()))...)
	s.join("ben", "--nodes", "1")
	ben := s.seated("ben", 1)
	s.more(3, ben...)
	s.lab.Link(netHub, "ben").Set(netlab.Conditions{CutAB: true, CutBA: true})
	wait(t, *netDeadline) // meanwhile it trains alone
	require.Equal(t, 128+int(syscall.SIGTERM), s.stop("ben"), s.running["ben"].log)
	require.Contains(t, s.running["ben"].log.String(), undelivered)
	s.lab.Link(netHub, "ben").Set(roughWay())
	s.start("ben")
	s.more(1, ben...)
	s.retire("ben", ben...)
	require.Equal(t, 128+int(syscall.SIGTERM), s.stop(netHub), s.running[netHub].log)
	s.wholeRounds()
	s.sameEverywhere("ben")
}

// A run over three hosts ends by itself, with success on all of them.
func TestJoinedRunEnds(t *testing.T) {
	t.Parallel()
	if *netCut < time.Minute {
		t.Skip("make net-test runs it; TestAWorkerJoinsARunThatGoesOn does without the lab")
	}
	s := newNetSwarm(t, 2, "anna")
	s.up(tinyRun("--nodes", "1", "--rounds", "60", "--seed", "3")...)
	s.join("anna", "--nodes", "1")
	nodes := append(s.seated("anna", 1), "node_0")
	s.running["anna"].mayEnd = true
	require.Equal(t, fail.ExitDone, s.finish(netHub), s.running[netHub].log)
	require.Equal(t, fail.ExitDone, s.finish("anna"), s.running["anna"].log)
	s.wholeRounds()
	s.sameEverywhere("anna")
	require.Len(t, s.rounds(), len(nodes))
	listed := swarm(t, s.homes[netHub], "workers", "-o", "json")
	require.Zero(t, listed.code, listed.stderr)
	require.Contains(t, listed.stdout, `"anna"`)
}

// during runs do and checks that others don't notice it: no node's training pauses longer than the barrier's deadline
// plus the slack of a round.
func (s *netSwarm) during(what string, nodes []string, do func()) {
	s.t.Helper()
	began := time.Now()
	do()
	s.unhindered(what, nodes, began, time.Now())
}

// unhindered checks a time span when the coordinator's database has all of its rounds.
func (s *netSwarm) unhindered(what string, nodes []string, from, to time.Time) {
	s.t.Helper()
	bound := *netDeadline + *netSlack
	for _, node := range nodes {
		pause := longestPause(s.moments(node), from, to)
		s.t.Logf("%s: %s paused for at most %.1f s of %.1f s", what, node, pause.Seconds(), to.Sub(from).Seconds())
		if pause > bound {
			s.t.Errorf("%s: %s paused for %s, longer than the deadline %s and %s", what, node, pause, *netDeadline, *netSlack)
		}
	}
}

// wait lets time pass while the swarm continues.
func wait(t *testing.T, d time.Duration) {
	t.Helper()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-t.Context().Done():
	}
}
