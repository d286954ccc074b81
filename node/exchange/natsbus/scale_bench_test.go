package natsbus

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/sapo-swarm/swarm/node/exchange"
)

// BenchmarkGather64 reads an available round of 64 peers with 64 KB each: from a local node, and from a worker's node
// over TLS.
func BenchmarkGather64(b *testing.B) {
	o := openOffice(b, ServerOptions{})
	var peers []string
	writer := join(b, o.server, "run", "writer")
	for i := range 64 {
		peer := fmt.Sprintf("node_%d", i)
		peers = append(peers, peer)
		data, err := exchange.Encode(batch(peer, 0, strings.Repeat("x", 60<<10)))
		if err != nil {
			b.Fatal(err)
		}
		if _, err := o.server.js.Publish(b.Context(), writer.subjects.rollouts(0, peer), data); err != nil {
			b.Fatal(err)
		}
	}
	for name, bus := range map[string]*Bus{"local": join(b, o.server, "run", "reader"), "worker": o.bus(b, "ada", "a")} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := bus.Gather(b.Context(), 0, peers, exchange.Barrier{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkConnections measures what a thousand idle workers' nodes cost, with both ends of each connection in this
// process.
func BenchmarkConnections(b *testing.B) {
	const connections = 1000
	o := openOffice(b, ServerOptions{})
	memory := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapInuse + m.StackInuse
	}
	for b.Loop() {
		before := memory()
		var open []*Bus
		for i := range connections {
			open = append(open, o.bus(b, fmt.Sprintf("w%d", i/32), fmt.Sprintf("node_%d", i)))
		}
		b.ReportMetric(float64(memory()-before)/connections/1024, "KiB/connection")
		for _, bus := range open {
			_ = bus.Close()
		}
	}
}
