package node

import (
	"context"
	"os"
	"time"

	"github.com/shirou/gopsutil/v4/process"

	"github.com/sapo-swarm/swarm/metrics/event"
)

// gauge reports the node's memory: the engine's as of its last answer, this process's as of now. Its regular
// events are the node's sign of life.
type gauge struct {
	link  *Link
	meter *meter
}

func (g *gauge) emit() {
	memory := g.meter.report(residentBytes())
	g.link.Emit(event.Event{Type: event.TypeMemory, Memory: &memory})
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
