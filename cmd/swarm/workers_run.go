package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/launcher/lifecycle"
	"github.com/sapo-swarm/swarm/launcher/workers"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// workersRun is the run whose workers are meant: of that name, or the newest that this home coordinates, empty where it coordinates none. joined
// is this home's newest part in another host's run, which has its workers there.
func workersRun(ctx context.Context, g *globals, reader *store.Reader, name string) (run, joined string, err error) {
	runs, err := reader.Runs(ctx, store.Filter{})
	if err != nil {
		return "", "", err
	}
	slices.SortStableFunc(runs, func(a, b store.Totals) int { // newest first, by what was last begun of each
		return cmp.Compare(max(b.Started, b.Resumed), max(a.Started, a.Resumed))
	})
	for _, r := range runs {
		switch part := workers.IsPart(g.home, r.Run.Run); {
		case r.Imported():
		case part && joined == "":
			joined = r.Run.Run
		case !part && run == "":
			run = r.Run.Run
		}
	}
	if name == "" {
		return run, joined, nil
	}
	snapshot, err := reader.Snapshot(ctx, name)
	if err != nil {
		return "", joined, lifecycle.NotFound(err, name)
	}
	if workers.IsPart(g.home, snapshot.Run.Run) {
		return "", joined, fail.Usage(
			fmt.Errorf("run %s is this host's part in a run that another host coordinates: who takes part is known there", snapshot.Run.Run),
			"swarm workers, on the coordinator; here: swarm status "+snapshot.Run.Run)

	}
	return snapshot.Run.Run, joined, nil
}
