package exchangetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/sapo-swarm/swarm/node/exchange"
)

func testOrder(t *testing.T, swarm Swarm) {
	a, b, c := swarm.Join(t, "a"), swarm.Join(t, "b"), swarm.Join(t, "c")
	publish(t, b, batch("b", 3, ""))
	publish(t, a, batch("a", 3, ""))
	publish(t, a, batch("a", 4, ""))
	peers := []string{"c", "b", "nobody", "a"}
	got := gather(t, c, 3, peers, look())
	for i, peer := range peers {
		if peer == "a" || peer == "b" {
			same(t, got[i], batch(peer, 3, ""))
		} else if got[i] != nil {
			t.Errorf("%s: %+v although it hasn't shared", peer, got[i])
		}
	}
	if got := gather(t, c, 3, nil, patient()); len(got) != 0 {
		t.Errorf("no peers: %v", got)
	}
}

func testFirstWins(t *testing.T, swarm Swarm) {
	a, reader := swarm.Join(t, "a"), swarm.Join(t, "reader")
	first := batch("a", 0, "first")
	publish(t, a, first)
	publish(t, a, first)
	publish(t, a, batch("a", 0, "second"))
	publish(t, swarm.Join(t, "a"), batch("a", 0, "restarted"))
	same(t, gather(t, reader, 0, []string{"a"}, patient())[0], first)
}

func testPastRounds(t *testing.T, swarm Swarm) {
	a, reader := swarm.Join(t, "a"), swarm.Join(t, "reader")
	for round := range 5 {
		publish(t, a, batch("a", round, fmt.Sprint(round)))
	}
	for _, round := range []int{1, 0, 1, 4} {
		same(t, gather(t, reader, round, []string{"a"}, patient())[0], batch("a", round, fmt.Sprint(round)))
	}
	same(t, gather(t, swarm.Join(t, "late"), 2, []string{"a"}, patient())[0], batch("a", 2, "2"))
}

// testNames uses node names that are special to some transport.
func testNames(t *testing.T, swarm Swarm) {
	names := []string{"node_1", "a.b", "a", "*", ">", "node 1", "node=201", "../x", "\u00fc", "A"}
	for _, name := range names {
		publish(t, swarm.Join(t, name), batch(name, 0, name))
	}
	for i, got := range gather(t, swarm.Join(t, "reader"), 0, names, look()) {
		same(t, got, batch(names[i], 0, names[i]))
	}
}

func testBounds(t *testing.T, swarm Swarm) {
	a, reader := swarm.Join(t, "a"), swarm.Join(t, "reader")
	for name, spoil := range map[string]func(*exchange.Batch){
		"another's name": func(b *exchange.Batch) { b.Node = "b" },
		"round":          func(b *exchange.Batch) { b.Round = -1 },
		"rollouts":       func(b *exchange.Batch) { b.Rollouts = make([]exchange.Rollout, exchange.MaxRollouts+1) },
		"question":       func(b *exchange.Batch) { b.Rollouts[0].Question = strings.Repeat("x", exchange.MaxQuestionBytes+1) },
		"metadata":       func(b *exchange.Batch) { b.Rollouts[0].Metadata = json.RawMessage(`[]`) },
		"completion":     func(b *exchange.Batch) { b.Rollouts[0].Completions[0].Text = "\xff" },
	} {
		spoiled := batch("a", 0, "")
		spoil(&spoiled)
		if err := a.Publish(t.Context(), spoiled); !errors.Is(err, exchange.ErrInvalid) {
			t.Errorf("%s: %v, want ErrInvalid", name, err)
		}
	}
	if got := gather(t, reader, 0, []string{"a"}, look()); got[0] != nil {
		t.Errorf("an invalid batch was shared: %+v", got[0])
	}
}

func testLargeBatch(t *testing.T, swarm Swarm) {
	a, reader := swarm.Join(t, "a"), swarm.Join(t, "reader")
	large := batch("a", 0, "large")
	text := strings.Repeat("x", exchange.MaxCompletionBytes)
	for range exchange.MaxBatchBytes/exchange.MaxCompletionBytes - 1 {
		large.Rollouts[0].Completions = append(large.Rollouts[0].Completions, exchange.Completion{Text: text})
	}
	publish(t, a, large)
	same(t, gather(t, reader, 0, []string{"a"}, patient())[0], large)
}

func testMalformed(t *testing.T, swarm Swarm) {
	reader := swarm.Join(t, "reader")
	encoded := func(b exchange.Batch) []byte {
		data, err := json.Marshal(b)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	otherVersion := batch("version", 0, "")
	otherVersion.Version = exchange.Version + 1
	crowd := batch("crowd", 0, "")
	crowd.Rollouts[0].Completions = make([]exchange.Completion, exchange.MaxCompletions+1)
	planted := map[string][]byte{
		"empty":    {},
		"garbage":  []byte("\x00\xff not JSON"),
		"cut":      encoded(batch("cut", 0, ""))[:40],
		"forged":   encoded(batch("somebody", 0, "")),
		"round":    encoded(batch("round", 1, "")),
		"version":  encoded(otherVersion),
		"crowd":    encoded(crowd),
		"metadata": []byte(`{"version":1,"node":"metadata","round":0,"rollouts":[{"question":"q","metadata":7,"completions":[]}]}`),
		"deep":     []byte(strings.Repeat("[", 1<<20)),
	}
	var peers []string
	for node, data := range planted {
		peers = append(peers, node)
		swarm.Plant(t, 0, node, data)
	}
	peers = append(peers, "good")
	publish(t, swarm.Join(t, "good"), batch("good", 0, ""))
	publish(t, swarm.Join(t, "garbage"), batch("garbage", 0, "too late"))

	got := gather(t, reader, 0, peers, exchange.Barrier{Deadline: soon, Quorum: len(peers), Limit: soon})
	for i, node := range peers {
		switch {
		case node == "good":
			same(t, got[i], batch("good", 0, ""))
		case got[i] == nil:
			t.Errorf("%s: doesn't count as shared", node)
		case got[i].Rejected == "" || len(got[i].Rollouts) > 0 || got[i].Node != node || got[i].Round != 0 || got[i].Bytes != len(planted[node]):
			t.Errorf("%s: got %+v", node, got[i])
		}
	}
}
