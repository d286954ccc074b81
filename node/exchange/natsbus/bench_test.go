package natsbus

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sapo-swarm/swarm/node/exchange"
)

// BenchmarkRound runs rounds of eight nodes. Each node shares eight questions with eight answers of 1 KB and waits for
// the others. The metric available-ms is the mean time from a Publish to the last of the other nodes' Gathers that wait
// only for it.
func BenchmarkRound(b *testing.B) {
	const nodes = 8
	server := startServer(b, ServerOptions{Dir: b.TempDir()})
	createRun(b, server, "run")
	names := make([]string, nodes)
	buses := make([]*Bus, nodes)
	for i := range nodes {
		names[i] = fmt.Sprintf("node_%d", i)
		buses[i] = join(b, server, "run", names[i])
	}
	text := strings.Repeat("The answer follows from the text. ", 30)
	make64KB := func(node string, round int) exchange.Batch {
		batch := exchange.Batch{Node: node, Round: round}
		for range 8 {
			rollout := exchange.Rollout{Question: text, Metadata: []byte(`{"a":1}`)}
			for range 8 {
				rollout.Completions = append(rollout.Completions, exchange.Completion{Text: text})
			}
			batch.Rollouts = append(batch.Rollouts, rollout)
		}
		return batch
	}
	patient := exchange.Barrier{Deadline: soon, Limit: soon}

	b.Run("all", func(b *testing.B) {
		round := 0
		for b.Loop() {
			var group sync.WaitGroup
			for i := range nodes {
				group.Go(func() {
					if err := buses[i].Publish(b.Context(), make64KB(names[i], round)); err != nil {
						b.Error(err)
					}
					if _, err := buses[i].Gather(b.Context(), round, names, patient); err != nil {
						b.Error(err)
					}
				})
			}
			group.Wait()
			round++
		}
	})
	b.Run("available", func(b *testing.B) {
		round := 1 << 20
		var total time.Duration
		for b.Loop() {
			var group sync.WaitGroup
			for i := 1; i < nodes; i++ {
				group.Go(func() {
					if _, err := buses[i].Gather(b.Context(), round, names[:1], patient); err != nil {
						b.Error(err)
					}
				})
			}
			start := time.Now()
			if err := buses[0].Publish(b.Context(), make64KB(names[0], round)); err != nil {
				b.Error(err)
			}
			group.Wait()
			total += time.Since(start)
			round++
		}
		b.ReportMetric(float64(total.Milliseconds())/float64(b.N), "available-ms")
	})
}
