package node

import (
	"context"
	"log/slog"
	"os"
	"runtime"
	"time"

	"github.com/shirou/gopsutil/v4/process"

	"github.com/sapo-swarm/swarm/metrics/event"
)

// gauge reports the node's memory: the engine's as of its last answer, this process's as of now. Its regular
// events are the node's sign of life.
type gauge struct {
	link   *Link
	meter  *meter
	logger *slog.Logger
	share  sharing
}

// accounting is how often a node logs, for whoever debugs it, what its own process holds.
const accounting = 30 * time.Second

func (g *gauge) emit() {
	memory := g.meter.report(residentBytes())
	g.link.Emit(event.Event{Type: event.TypeMemory, Memory: &memory})
}

func (g *gauge) serve(ctx context.Context) {
	ticker := time.NewTicker(heartbeat)
	defer ticker.Stop()
	accounts := time.NewTicker(accounting)
	defer accounts.Stop()
	beat := func() {
		g.share.sample(g.meter, time.Now())
		g.emit()
	}
	beat()
	for {
		select {
		case <-ticker.C:
			beat()
		case <-accounts.C:
			g.logger.Debug("resources", "rss_bytes", residentBytes(), "open_files", openFiles(), "goroutines", runtime.NumGoroutine())
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

// openFiles counts this process's descriptors, -1 where the system doesn't tell.
func openFiles() int {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return -1
	}
	return len(entries) - 1 // but that of the folder itself
}
