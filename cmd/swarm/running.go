package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/interrupt"
	"github.com/sapo-swarm/swarm/internal/layout"
	"github.com/sapo-swarm/swarm/launcher/supervise"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/stats"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// silence is how long the database may not hear from a coordinator on another host before that is taken for dead, in seconds. It
// hears from a living one every few seconds.
const silence = 120

// identityOf names the process that has, or had, a run.
func identityOf(run store.Run) supervise.Identity {
	return supervise.Identity{PID: run.PID, Start: uint64(run.StartTicks), Boot: run.BootID}
}

// elsewhere tells whether a run belongs to another host, whose processes can't be seen from here.
func elsewhere(run store.Run) bool {
	host, err := os.Hostname()
	return err == nil && run.Host != "" && host != run.Host
}

// coordinatorAlive tells whether the process that has a run still runs: the same pid, start and boot. Of one on another host only the
// database tells.
func coordinatorAlive(s store.Snapshot, now float64) bool {
	if !elsewhere(s.Run) {
		return identityOf(s.Run).Alive()
	}
	if len(s.Attempts) == 0 {
		return s.Run.State == store.RunRunning
	}
	newest := s.Attempts[len(s.Attempts)-1]
	return newest.Ended == 0 && now-newest.Seen < silence
}

// readStatus is the status of the run or experiment of that name, as of now.
func readStatus(ctx context.Context, reader *store.Reader, name string) (stats.Status, error) {
	snapshot, err := reader.Snapshot(ctx, name)
	if err != nil {
		return stats.Status{}, err
	}
	now := event.Now()
	return stats.NewStatus(snapshot, now, coordinatorAlive(snapshot, now)), nil
}

// runsNow returns the runs of that name, a run's or an experiment's, that are being run now; with an empty name all of them, oldest first.
func runsNow(ctx context.Context, reader *store.Reader, name string) ([]store.Snapshot, error) {
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
		if coordinatorAlive(snapshot, event.Now()) {
			running = append(running, snapshot)
		}
	}
	return running, nil
}

// chooseRunning is the one run that a name, or nothing, means among those that run; nil where none does.
func chooseRunning(ctx context.Context, reader *store.Reader, name, command string) (*store.Snapshot, error) {
	running, err := runsNow(ctx, reader, name)
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
		if elsewhere(s.Run) {
			name += " on " + s.Run.Host
		}
		names = append(names, name)
	}
	return names
}

// invocation is how this user would type the program's name and its home.
func (g *globals) invocation() string {
	program := os.Args[0]
	if !strings.Contains(program, "/") {
		program = "swarm"
	}
	if def, err := filepath.Abs(layout.Default(os.Getenv)); err != nil || def != string(g.home) {
		program += " --home " + string(g.home)
	}
	return program
}

// codeOf is the exit code that swarm up of a run ended with, as far as the database tells.
func codeOf(s stats.Status) int {
	switch s.State {
	case store.RunDone:
		return fail.ExitDone
	case store.RunLost:
		return fail.ExitLost
	case store.RunStopped:
		for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
			// "stopped by interrupt" and the like are of runs of an older swarm.
			if s.Message == (&interrupt.Error{Signal: signal}).Error() || s.Message == "stopped by "+signal.String() {
				return fail.ExitSignal + int(signal)
			}
		}
	}
	return fail.ExitFailed
}

// openReader opens the database for reading: the home's, or the one that --database names.
func (g *globals) openReader(ctx context.Context) (*store.Reader, error) {
	if g.databaseFile != "" {
		return openDatabaseFile(ctx, g.databaseFile)
	}
	reader, err := store.OpenReader(ctx, g.home.Database())
	if errors.Is(err, store.ErrNoDatabase) {
		return nil, fail.Hint(fmt.Errorf("nothing has run under %s yet", g.home), "swarm up --config 4loc4ext, or another --home")
	}
	return reader, err
}

func notFound(err error, name string) error {
	if !errors.Is(err, store.ErrNotFound) {
		return err
	}
	if name == "" {
		return fail.Hint(errors.New("no run is recorded yet"), "swarm up --config 4loc4ext")
	}
	return fail.Usage(fmt.Errorf("no run or experiment %q is recorded", name), "swarm ls")
}

// unknownExperiment is a name that no experiment has, where experiments are compared: it may be a run's.
func unknownExperiment(ctx context.Context, reader *store.Reader, name string) error {
	if s, err := reader.Snapshot(ctx, name); err == nil && s.Run.Run == name {
		return fail.Usage(fmt.Errorf("%q is a run, and experiments are what is compared", name), "its experiment, "+s.Run.Experiment)
	}
	return fail.Usage(fmt.Errorf("no experiment %q is recorded", name), "swarm ls")
}

// atMostOneName is the Args of commands that take an experiment or a run, or nothing.
func atMostOneName(cmd *cobra.Command, args []string) error {
	if len(args) > 1 {
		return fail.Usage(fmt.Errorf("%s takes one experiment or run, not %d", cmd.Name(), len(args)), cmd.CommandPath()+" --help")
	}
	return nil
}

func nameIn(args []string) string {
	if len(args) == 0 {
		return ""
	}
	return args[0]
}
