package lifecycle

import (
	"syscall"

	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/interrupt"
	"github.com/sapo-swarm/swarm/metrics/stats"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// ExitCode returns the exit code of swarm up for a run, as far as the database shows it.
func ExitCode(s stats.Status) int {
	switch s.State {
	case store.RunDone:
		return fail.ExitDone
	case store.RunLost:
		return fail.ExitLost
	case store.RunStopped:
		for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
			// Runs of an older swarm recorded "stopped by interrupt" and the like.
			if s.Message == (&interrupt.Error{Signal: signal}).Error() || s.Message == "stopped by "+signal.String() {
				return fail.ExitSignal + int(signal)
			}
		}
	}
	return fail.ExitFailed
}
