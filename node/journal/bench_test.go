package journal

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/node/policy"
)

// realistic returns a round's records at the size of a GPT-2 run: I=4 and J=4 groups of G=8, prompts of 120 tokens and
// completions of length tokens. Ids and words follow a Zipf distribution.
func realistic(length int) (Generated, Trained, Done) {
	rng := rand.New(rand.NewPCG(1, 2))
	zipf := rand.NewZipf(rng, 1.2, 8, 50256)
	ids := func(n int) []int {
		list := make([]int, n)
		for i := range list {
			list[i] = int(zipf.Uint64())
		}
		return list
	}
	text := func(ids []int) string {
		var b strings.Builder
		for _, id := range ids {
			fmt.Fprintf(&b, " w%x", id)
		}
		return b.String()
	}
	g := Generated{Seed: 1 << 50, Entropy: 2.345678901234567, Seconds: 3.21}
	var tr Trained
	type completion struct {
		Text       string `json:"text"`
		Terminated bool   `json:"terminated"`
	}
	var rollouts []map[string]any
	for group := range 8 {
		prompt := ids(120)
		tr.Update.Prompts = append(tr.Update.Prompts, prompt)
		var completions []completion
		for range 8 {
			own := ids(length)
			tr.Update.Sequences = append(tr.Update.Sequences, policy.Sequence{Prompt: group, Completion: own, Advantage: rng.NormFloat64()})
			if group < 4 {
				g.Completions, g.Terminated = append(g.Completions, own), append(g.Terminated, true)
				completions = append(completions, completion{text(own), true})
			}
		}
		if group < 4 {
			rollouts = append(rollouts, map[string]any{
				"question": text(prompt), "answer": "42", "metadata": map[string]any{"source_dataset": "x"}, "completions": completions,
			})
		}
	}
	g.Batch, _ = json.Marshal(map[string]any{"version": 1, "node": "node_0", "round": 7, "rollouts": rollouts})
	report := event.Round{Round: 7, Reward: 0.123456789, Peers: make([]event.Peer, 7)}
	tr.Report = report
	return g, tr, Done{Event: event.Event{Type: event.TypeRound, Time: 1.7e9, Round: &report}}
}

// BenchmarkRound logs a round. It reports the bytes of the journal and the time relative to an fsync of as many bytes.
func BenchmarkRound(b *testing.B) {
	for _, length := range []int{64, 256, 896} {
		g, tr, d := realistic(length)
		b.Run(fmt.Sprintf("append/tokens=%d", length), func(b *testing.B) {
			j := resumed(b, b.TempDir(), 0)
			defer j.Close()
			round := 0
			for b.Loop() {
				require.NoError(b, j.Generated(round, g))
				require.NoError(b, j.Trained(round, tr))
				require.NoError(b, j.Done(round, d))
				round++
			}
			b.ReportMetric(float64(j.size)/float64(round), "bytes/round")
		})
		b.Run(fmt.Sprintf("fsync/tokens=%d", length), func(b *testing.B) {
			var data []byte
			for k, record := range map[kind]any{kindGenerated: g, kindTrained: tr, kindDone: d} {
				data = append(data, frameOf(b, k, 0, record)...)
			}
			file, err := os.Create(filepath.Join(b.TempDir(), "f"))
			require.NoError(b, err)
			defer file.Close()
			for b.Loop() {
				_, err := file.Write(data)
				require.NoError(b, err)
				require.NoError(b, file.Sync())
			}
		})
	}
}

// BenchmarkRead2000 reads 2000 rounds, the length of a node's run.
func BenchmarkRead2000(b *testing.B) {
	g, tr, d := realistic(256)
	j := resumed(b, b.TempDir(), 0)
	var frames []byte
	for round := range 2000 {
		frames = frames[:0]
		for _, r := range []struct {
			kind   kind
			record any
		}{{kindGenerated, g}, {kindTrained, tr}, {kindDone, d}} {
			frames = append(frames, frameOf(b, r.kind, round, r.record)...)
		}
		if round%25 == 0 {
			require.NoError(b, j.Rotate(round))
		}
		require.NoError(b, j.write(round, frames, false))
	}
	require.NoError(b, j.Close())
	b.Run("rounds", func(b *testing.B) {
		for b.Loop() {
			rounds := 0
			for _, err := range Rounds(j.dir, 0) {
				require.NoError(b, err)
				rounds++
			}
			require.Equal(b, 2000, rounds)
		}
	})
	b.Run("find", func(b *testing.B) {
		for b.Loop() {
			_, err := Find(j.dir, 1999)
			require.NoError(b, err)
		}
	})
}
