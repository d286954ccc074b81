package membership

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/node/exchange"
)

// full returns a batch of the largest size that the experiment and a question's bounds allow.
func (d *testServer) full(node string, round int) Offer {
	text := strings.Repeat("x", 60<<10)
	b := exchange.Batch{Node: node, Round: round}
	for range d.gate.rollouts {
		b.Rollouts = append(b.Rollouts, exchange.Rollout{Question: text[:20<<10], Metadata: json.RawMessage(`{}`)})
		for range d.gate.completions {
			b.Rollouts[len(b.Rollouts)-1].Completions = append(b.Rollouts[len(b.Rollouts)-1].Completions, exchange.Completion{Text: text[:min(len(text), tokenBytes*d.gate.tokens)]})
		}
	}
	data, err := exchange.Encode(b)
	require.NoError(d.t, err)
	require.Less(d.t, len(data), d.gate.size())
	return Offer{Node: node, Round: round, Data: data}
}

// A batch can't be larger than its number of completions of max_completion_length tokens.
func TestABatchIsBoundedByTheExperimentsLength(t *testing.T) {
	d := newTestServer(t, nil)
	_, err := d.join("w", NodeInfo{})
	require.NoError(t, err)
	require.NoError(t, d.Offer(t.Context(), "w", d.full("w_0", 2)))
	require.Less(t, d.gate.size(), 1<<20, "of 2 questions with 4 completions")
	giant := d.full("w_0", 2)
	giant.Data = append(giant.Data, []byte(strings.Repeat(" ", d.gate.size()))...)
	err = d.Offer(t.Context(), "w", giant)
	require.Equal(t, CodeRollouts, code(t, err))
	require.ErrorContains(t, err, "the experiment's sizes allow")
	for name, c := range map[string]exchange.Completion{
		"text":              {Text: strings.Repeat("x", completionBytes+1)},
		"tokens":            {Tokens: make([]int, 4)},
		"log-probabilities": {Logprobs: make([]float32, 5)},
	} {
		gate := d.gate
		gate.tokens = 3
		if name == "text" {
			c.Text += strings.Repeat("x", longestToken*gate.tokens)
		}
		b := exchange.Batch{Node: "w_0", Round: 2, Rollouts: []exchange.Rollout{{Question: "q", Metadata: json.RawMessage(`{}`), Completions: []exchange.Completion{c}}}}
		data, err := exchange.Encode(b)
		require.NoError(t, err)
		refusal := gate.open(Offer{Node: "w_0", Round: 2, Data: data})
		require.NotNil(t, refusal, name)
		require.Contains(t, refusal.Message, "longer than max_completion_length (3) allows")
	}
}

// shares puts a batch of the given size into the stream if the quota allows.
func (d *testServer) shares(worker, node string, round, bytes int) bool {
	d.lock()
	defer d.flush()
	s, o := d.sessions[worker], Offer{Node: node, Round: round, Data: make([]byte, bytes)}
	if d.room(s, o) != nil {
		return false
	}
	d.occupy(s, o)
	return true
}

// A worker that shares as much as it can fills only its own part of the stream. Other workers are not delayed.
func TestAWorkerHasItsPartOfTheStream(t *testing.T) {
	d := newTestServer(t, nil)
	joined, err := d.join("greedy", make([]NodeInfo, MaxNodes)...)
	require.NoError(t, err)
	_, err = d.join("honest", NodeInfo{})
	require.NoError(t, err)
	size := d.gate.size()
	var sum, refused int
	for round := 2; round < 60; round++ {
		d.Progress("node_0", round)
		for _, a := range joined.Assignments {
			if d.shares("greedy", a.Node, round, size) {
				sum += size
			} else {
				refused++
			}
		}
		require.True(t, d.shares("honest", "honest_0", round, 50<<10))
	}
	t.Logf("%d MB were taken in batches of %d kB, %d were told to wait", sum>>20, size>>10, refused)
	require.Positive(t, refused)
	require.Less(t, sum, streamOfTests/2)

	o := d.full("greedy_0", 59)
	err = d.Offer(t.Context(), "greedy", o)
	require.Equal(t, CodeRate, code(t, err))
	require.ErrorContains(t, err, "Try: again in a round")
	require.NoError(t, d.Offer(t.Context(), "honest", d.full("honest_0", 60)))
}

// streamOfTests equals natsbus's streamBytes.
const streamOfTests = 1 << 30

// All workers of one invitation share one allowance of disk, stream and network, however many they are.
func TestOneInvitationHasOneAllowance(t *testing.T) {
	r := registry(t, t.TempDir())
	leaked, err := r.Invite("", false)
	require.NoError(t, err)
	private, err := r.Invite("friend", true)
	require.NoError(t, err)
	_, err = enrol(r, private, "friend")
	require.NoError(t, err)
	d := newTestServer(t, func(o *AdmissionOptions) { o.Registry = r })
	_, err = d.join("friend", NodeInfo{})
	require.NoError(t, err)
	const sybils = 40
	for i := range sybils {
		_, err := enrol(r, leaked, fmt.Sprintf("s%d", i))
		require.NoError(t, err)
		_, err = d.join(fmt.Sprintf("s%d", i), make([]NodeInfo, 8)...)
		require.NoError(t, err)
	}
	var kept, stored, drawn int64
	for i := range sybils {
		s := d.sessions[fmt.Sprintf("s%d", i)]
		for d.afford(s, 1, 1<<20) == 0 {
			kept += 1 << 20
		}
	}
	require.LessOrEqual(t, kept, int64(groupFactor*byteBurst), "at once")
	require.Zero(t, d.afford(d.sessions["friend"], 1, 1<<20), "others are not told to wait")

	for round := 2; round < 60; round++ {
		d.Progress("node_0", round)
		for i := range sybils {
			for n := range 8 {
				if d.shares(fmt.Sprintf("s%d", i), fmt.Sprintf("s%d_%d", i, n), round, d.gate.size()) {
					stored += int64(d.gate.size())
				}
			}
		}
		require.True(t, d.shares("friend", "friend_0", round, 50<<10))
	}
	t.Logf("%d workers of one invitation: %d MB of events at once, %d MB in the stream", sybils, kept>>20, stored>>20)
	require.LessOrEqual(t, stored, int64(groupQuota))

	for i := range sybils {
		for d.Drawn(fmt.Sprintf("s%d", i), 4<<20) == 0 {
			drawn += 4 << 20
		}
	}
	require.Less(t, drawn, int64(sybils*8*nodeDrawnBurst))
	require.Zero(t, d.Drawn("friend", 4<<20))
}
