// Package lifecycle manages the runs of a home: it finds running ones and their processes, holds their locks, and
// stops, lists and removes runs. It takes a home and its database, and trains nothing.
package lifecycle

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/launcher/supervise"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/query"
	"github.com/sapo-swarm/swarm/metrics/stats"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// silence is how long the database may not hear from a coordinator on another host before that is taken for dead, in
// seconds. It hears from a living one every few seconds.
const silence = 120

// Identity names the process that has, or had, a run.
func Identity(run store.Run) supervise.Identity {
	return supervise.Identity{PID: run.PID, Start: uint64(run.StartTicks), Boot: run.BootID}
}

// Elsewhere tells whether a run belongs to another host, whose processes can't be seen from here.
func Elsewhere(run store.Run) bool {
	host, err := os.Hostname()
	return err == nil && run.Host != "" && host != run.Host
}

// Alive tells whether the process that has a run still runs: the same pid, start and boot. Of one on another host only
// the database tells.
func Alive(s store.Snapshot, now float64) bool {
	if !Elsewhere(s.Run) {
		return Identity(s.Run).Alive()
	}
	if len(s.Attempts) == 0 {
		return s.Run.State == store.RunRunning
	}
	newest := s.Attempts[len(s.Attempts)-1]
	return newest.Ended == 0 && now-newest.Seen < silence
}

// Status is the status of the run or experiment of that name, as of now.
func Status(ctx context.Context, reader *store.Reader, name string) (stats.Status, error) {
	snapshot, err := reader.Snapshot(ctx, name)
	if err != nil {
		return stats.Status{}, err
	}
	now := event.Now()
	return query.Status(snapshot, now, Alive(snapshot, now)), nil
}

// Running returns the runs of that name, a run's or an experiment's, that are being run now; with an empty name all of
// them, oldest first.
func Running(ctx context.Context, reader *store.Reader, name string) ([]store.Snapshot, error) {
	runs, err := reader.Runs(ctx, store.Filter{States: []string{store.RunRunning}})
	if err != nil {
		return nil, err
	}
	var running []store.Snapshot
	for _, run := range runs {
		if name != "" && name != run.Run.Run && name != run.Experiment {
			continue
		}
		snapshot, err := reader.Snapshot(ctx, run.Run.Run)
		if err != nil {
			return nil, err
		}
		if Alive(snapshot, event.Now()) {
			running = append(running, snapshot)
		}
	}
	return running, nil
}

// Choose is the one run that a name, or nothing, means among those that run; nil where none does.
func Choose(ctx context.Context, reader *store.Reader, name, command string) (*store.Snapshot, error) {
	running, err := Running(ctx, reader, name)
	switch {
	case err != nil || len(running) == 0:
		return nil, err
	case len(running) > 1:
		return nil, fail.Usage(
			fmt.Errorf("%d runs go on: %s", len(running), strings.Join(runNames(running), ", ")),
			"swarm "+command+" "+running[len(running)-1].Run.Run)

	}
	return &running[0], nil
}

func runNames(runs []store.Snapshot) []string {
	var names []string
	for _, s := range runs {
		name := s.Run.Run
		if Elsewhere(s.Run) {
			name += " on " + s.Run.Host
		}
		names = append(names, name)
	}
	return names
}
