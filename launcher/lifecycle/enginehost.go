package lifecycle

import (
	"path/filepath"

	"github.com/sapo-swarm/swarm/internal/hostmem"
	"github.com/sapo-swarm/swarm/internal/layout"
	"github.com/sapo-swarm/swarm/launcher/supervise"
	"github.com/sapo-swarm/swarm/metrics/stats"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// HostFolder is the folder of a run that holds the pid file of its engine host.
const HostFolder = "engine-host"

// EngineHost returns the current host memory of a running run's engine host, or nil if there is none.
func EngineHost(home layout.Home, x stats.Status) *stats.EngineHost {
	if x.State != store.RunRunning {
		return nil
	}
	process, ok := supervise.Recorded(filepath.Join(home.Run(x.Run), HostFolder, supervise.PIDFileName))
	if !ok {
		return nil
	}
	use, err := hostmem.Of(process.PID)
	if err != nil {
		return nil
	}
	return &stats.EngineHost{PID: process.PID, RSSBytes: use.Resident, PSSBytes: use.Proportional}
}
