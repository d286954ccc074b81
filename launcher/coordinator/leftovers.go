package coordinator

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/sapo-swarm/swarm/internal/layout"
	"github.com/sapo-swarm/swarm/launcher/lifecycle"
	"github.com/sapo-swarm/swarm/launcher/mps"
	"github.com/sapo-swarm/swarm/launcher/supervise"
)

// Sweep ends the processes and MPS daemons that dead coordinators left behind in a home. Call it before planning, too:
// leftovers hold memory that the plan needs. It needs no lock, because it leaves living coordinators alone.
func Sweep(ctx context.Context, home layout.Home, logger *slog.Logger) error {
	orphans, err := supervise.SweepOrphans(ctx, home.Runs(), lifecycle.OrphanTerm)
	for _, o := range orphans {
		logger.Warn("ended a leftover process of an earlier run", "pid", o.PID, "folder", o.Dir)
	}
	if err != nil {
		return fmt.Errorf("end leftover processes of an earlier run: %w", err)
	}
	daemons, err := mps.Sweep(ctx, home.Runs())
	for _, pid := range daemons {
		logger.Warn("ended a leftover MPS daemon of an earlier run", "pid", pid)
	}
	if err != nil {
		return fmt.Errorf("end leftover MPS daemons of an earlier run: %w", err)
	}
	return nil
}
