package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"

	"github.com/shirou/gopsutil/v4/process"
	"github.com/spf13/cobra"

	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/stats"
	"github.com/sapo-swarm/swarm/metrics/store"
	"github.com/sapo-swarm/swarm/metrics/terminal"
)

func newStatusCommand(g *globals) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "status [EXPERIMENT or RUN]",
		Short: "Show a run: rounds, rewards, memory, restarts, time left (the newest run by default)",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return &usageError{fmt.Errorf("status takes one experiment or run, not %d", len(args)), "swarm status --help"}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			name := ""
			if len(args) == 1 {
				name = args[0]
			}
			return runStatus(cmd.Context(), g, name, output)
		},
	}
	addOutputFlag(cmd.Flags(), &output)
	return cmd
}

func runStatus(ctx context.Context, g *globals, name, output string) error {
	if err := checkOutput(output); err != nil {
		return err
	}
	reader, err := g.openReader(ctx)
	if err != nil {
		return err
	}
	defer reader.Close()
	status, err := readStatus(ctx, reader, name)
	if err != nil {
		return notFound(err, name)
	}
	if output == "json" {
		return writeJSON(g.stdout, status)
	}
	return terminal.PrintStatus(g.stdout, status)
}

// openReader opens the database for reading.
func (g *globals) openReader(ctx context.Context) (*store.Reader, error) {
	reader, err := store.OpenReader(ctx, g.database())
	if errors.Is(err, store.ErrNoDatabase) {
		return nil, &hintError{fmt.Errorf("nothing has run under %s yet", g.home), "swarm up --config 4loc4ext, or another --home"}
	}
	return reader, err
}

func notFound(err error, name string) error {
	if !errors.Is(err, store.ErrNotFound) {
		return err
	}
	if name == "" {
		return &hintError{errors.New("no run is recorded yet"), "swarm up --config 4loc4ext"}
	}
	return &usageError{fmt.Errorf("no run or experiment %q is recorded", name), "swarm compare lists what there is"}
}

// readStatus is the status of the run or experiment of that name, as of now.
func readStatus(ctx context.Context, reader *store.Reader, name string) (stats.Status, error) {
	snapshot, err := reader.Snapshot(ctx, name)
	if err != nil {
		return stats.Status{}, err
	}
	return stats.NewStatus(snapshot, event.Now(), coordinatorAlive(ctx, snapshot.Run)), nil
}

// coordinatorAlive tells whether the process that wrote a run still runs: same host, same pid, same start.
func coordinatorAlive(ctx context.Context, run store.Run) bool {
	if host, err := os.Hostname(); err == nil && run.Host != "" && host != run.Host {
		return true // another host's process can't be seen from here: believe the database
	}
	if run.PID == os.Getpid() {
		return true
	}
	started, err := processStart(ctx, run.PID)
	return err == nil && math.Abs(started-run.PIDStarted) < sameStart
}

// sameStart is how far apart, in seconds, two readings of one process's start may lie: they rest on the time of boot, which is
// rounded, and moves when the clock is set.
const sameStart = 10

// processStart is when a process started, in Unix seconds.
func processStart(ctx context.Context, pid int) (float64, error) {
	p, err := process.NewProcessWithContext(ctx, int32(pid))
	if err != nil {
		return 0, err
	}
	ms, err := p.CreateTimeWithContext(ctx)
	if err != nil {
		return 0, err
	}
	return float64(ms) / 1e3, nil
}
