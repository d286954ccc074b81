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

// gauge reports the node's memory: the engine's as of its last answer, and this process's current memory. Its
// regular events are the node's heartbeat.
type gauge struct {
	link   *Link
	meter  *meter
	logger *slog.Logger
	share  sharing
}

// accounting is the interval at which a node logs its own process's resources, for debugging.
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

// residentBytes is this process's resident memory, 0 if the system does not report it.
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

// openFiles counts this process's file descriptors, -1 if the system does not report them.
func openFiles() int {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return -1
	}
	return len(entries) - 1 // without the descriptor of the folder itself
}
