// Package exchangetest is the conformance suite of exchange.Exchange. It checks any implementation against the
// interface's contract, with real connections. Of this module it imports only exchange.
package exchangetest

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/sapo-swarm/swarm/node/exchange"
)

// Swarm is an empty run of the implementation under test. Its methods fail the test on errors and register cleanups
// that close what they open.
type Swarm interface {
	// Join returns a new Exchange of a node. A node can join more than once, as after a restart.
	Join(t *testing.T, node string) exchange.Exchange
	// Plant stores bytes as the batch that a node shared for a round, without the sender's checks.
	Plant(t *testing.T, round int, node string, data []byte)
}

// Run runs the suite. It calls newSwarm once per test.
func Run(t *testing.T, newSwarm func(t *testing.T) Swarm) {
	for name, test := range map[string]func(t *testing.T, swarm Swarm){
		"Order":        testOrder,
		"FirstWins":    testFirstWins,
		"PastRounds":   testPastRounds,
		"Names":        testNames,
		"Bounds":       testBounds,
		"LargeBatch":   testLargeBatch,
		"LatePeer":     testLatePeer,
		"WaitsForAll":  testWaitsForAll,
		"Quorum":       testQuorum,
		"NoQuorum":     testNoQuorum,
		"ZeroBarrier":  testZeroBarrier,
		"Malformed":    testMalformed,
		"Concurrent":   testConcurrent,
		"Cancellation": testCancellation,
		"Close":        testClose,

		"Recent":          testRecent,
		"RecentLimit":     testRecentLimit,
		"RecentJoining":   testRecentJoining,
		"RecentRestart":   testRecentRestart,
		"RecentMalformed": testRecentMalformed,
		"RecentClosed":    testRecentClosed,
	} {
		t.Run(name, func(t *testing.T) { test(t, newSwarm(t)) })
	}
}

// soon bounds operations that take milliseconds on an idle machine.
const soon = 20 * time.Second

// patient returns a barrier that waits for every peer.
func patient() exchange.Barrier {
	return exchange.Barrier{Deadline: soon, Limit: soon}
}

// look returns a barrier that does not wait.
func look() exchange.Barrier { return exchange.Barrier{} }

// batch returns a node's batch. mark distinguishes two batches of the same node and round.
func batch(node string, round int, mark string) exchange.Batch {
	answer := "42"
	return exchange.Batch{
		Version: exchange.Version,
		Node:    node,
		Round:   round,
		Rollouts: []exchange.Rollout{{
			Question: "What is 6 * 7?",
			Answer:   &answer,
			Metadata: json.RawMessage(fmt.Sprintf(`{"mark":%q,"nested":{"a":[1,null]}}`, mark)),
			Completions: []exchange.Completion{
				{Text: "<answer>42</answer> & \"more\" \u2028 \U0001F600 \x00", Terminated: true},
				{Text: ""},
			},
		}, {
			Question: "no answer key",
			Metadata: json.RawMessage(`{}`),
		}},
	}
}

func publish(t *testing.T, e exchange.Exchange, b exchange.Batch) {
	t.Helper()
	if err := e.Publish(t.Context(), b); err != nil {
		t.Errorf("publish round %d of %s: %v", b.Round, b.Node, err)
	}
}

func gather(t *testing.T, e exchange.Exchange, round int, peers []string, barrier exchange.Barrier) []*exchange.Received {
	t.Helper()
	got, err := e.Gather(t.Context(), round, peers, barrier)
	if err != nil {
		t.Errorf("gather round %d: %v", round, err)
		return make([]*exchange.Received, len(peers))
	}
	if len(got) != len(peers) {
		t.Errorf("gather round %d: %d batches of %d peers", round, len(got), len(peers))
		return make([]*exchange.Received, len(peers))
	}
	return got
}

// same checks that the received batch equals the published one.
func same(t *testing.T, got *exchange.Received, want exchange.Batch) {
	t.Helper()
	if got == nil {
		t.Errorf("round %d of %s: not there", want.Round, want.Node)
		return
	}
	if got.Rejected != "" {
		t.Errorf("round %d of %s: rejected: %s", want.Round, want.Node, got.Rejected)
		return
	}
	gotJSON, err := json.Marshal(got.Batch)
	if err != nil {
		t.Fatal(err)
	}
	wantJSON, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	if string(gotJSON) != string(wantJSON) {
		t.Errorf("round %d of %s:\n got %.500s\nwant %.500s", want.Round, want.Node, gotJSON, wantJSON)
	}
	if got.Bytes <= 0 {
		t.Errorf("round %d of %s: %d bytes", want.Round, want.Node, got.Bytes)
	}
}
