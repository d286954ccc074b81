package coordinator

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/sapo-swarm/swarm/launcher/lifecycle"
	"github.com/sapo-swarm/swarm/launcher/supervise"
	"github.com/sapo-swarm/swarm/node/policy"
)

// keepHost logs the engine host of a run and records its process in the run's folder. If this coordinator is
// killed, a later process can end the engine host. The returned function ends the watch and removes the record.
func keepHost(ctx context.Context, python *policy.Interpreter, dir string, logger *slog.Logger) func() {
	host, err := python.Host()
	if err != nil {
		logger.Warn("no engine host: each engine imports torch for itself", "err", err)
	}
	if host == nil {
		return func() {}
	}
	path := filepath.Join(dir, lifecycle.HostFolder, supervise.PIDFileName)
	if _, err := supervise.SweepOrphans(ctx, filepath.Dir(path), 0); err != nil {
		logger.Warn("engine host of an earlier coordinator", "err", err)
	}
	host.Watch(logger, func(pid int) {
		err := os.MkdirAll(filepath.Dir(path), 0o700)
		if err == nil {
			err = supervise.Record(path, pid)
		}
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			logger.Warn("engine host not recorded", "pid", pid, "err", err)
		}
	})
	return func() {
		host.Watch(logger, func(int) {})
		os.RemoveAll(filepath.Dir(path))
	}
}
