package node

import (
	"context"
	"os"
	"sync"
	"time"

	"github.com/shirou/gopsutil/v4/process"

	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/node/policy"
)

// gauge reports the node's memory: the engine's as of its last answer, this process's as of now. Its regular
// events are the node's sign of life.
type gauge struct {
	link *Link
	mu   sync.Mutex
	last policy.Memory
	peak int64
}

func (g *gauge) set(m policy.Memory) {
	g.mu.Lock()
	g.last = m
	g.mu.Unlock()
}

func (g *gauge) emit() {
	own := residentBytes()
	g.mu.Lock()
	m := g.last
	g.peak = max(g.peak, m.PeakRSSBytes+own)
	peak := g.peak
	g.mu.Unlock()
	g.link.Emit(event.Event{Type: event.TypeMemory, Memory: &event.Memory{
		RSSBytes: m.RSSBytes + own, PeakRSSBytes: peak,
		DeviceBytes: m.DeviceReservedBytes, DevicePeakBytes: m.DevicePeakBytes,
	}})
}

func (g *gauge) serve(ctx context.Context) {
	ticker := time.NewTicker(heartbeat)
	defer ticker.Stop()
	g.emit()
	for {
		select {
		case <-ticker.C:
			g.emit()
		case <-ctx.Done():
			return
		}
	}
}

// residentBytes is this process's resident memory, 0 where the system doesn't tell.
func residentBytes() int64 {
	self, err := process.NewProcess(int32(os.Getpid()))
	if err != nil {
		return 0
	}
	memory, err := self.MemoryInfo()
	if err != nil {
		return 0
	}
	return int64(memory.RSS)
}
