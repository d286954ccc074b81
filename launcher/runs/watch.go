package runs

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/interrupt"
	"github.com/sapo-swarm/swarm/launcher/coordinator"
	"github.com/sapo-swarm/swarm/launcher/lifecycle"
	"github.com/sapo-swarm/swarm/metrics/stats"
	"github.com/sapo-swarm/swarm/metrics/store"
	"github.com/sapo-swarm/swarm/metrics/terminal"
)

// Watch shows a run from the database, independently of the process that trains it.
type Watch struct {
	o      Viewer
	reader *store.Reader
	run    store.Run
	view   *coordinator.View
}

// Find finds the run to watch by name. It prefers a running run. An empty name selects the running run, or else the
// newest run.
func Find(ctx context.Context, reader *store.Reader, name string, o Viewer) (*Watch, error) {
	running, err := lifecycle.Choose(ctx, reader, name, "attach")
	if err != nil {
		return nil, err
	}
	if running != nil {
		return o.watch(reader, running.Run), nil
	}
	snapshot, err := reader.Snapshot(ctx, name)
	if err != nil {
		return nil, lifecycle.NotFound(err, name)
	}
	return o.watch(reader, snapshot.Run), nil
}

func (o Viewer) watch(reader *store.Reader, run store.Run) *Watch {
	return &Watch{o: o, reader: reader, run: run, view: coordinator.NewView(reader, run.Run, o.Home.Run(run.Run))}
}

// Show shows the run until it ends, then its summary. The error has the run's exit code. If the user leaves
// earlier, by a key or a signal, the exit code is 130 or 143, so that scripts do not treat an unfinished run as a
// success.
func (w *Watch) Show(ctx context.Context, interval time.Duration, asJSON bool) error {
	ctx, interrupts := interrupt.Notify(ctx, w.o.Stderr, "Left. "+w.run.Run+" continues.")
	defer interrupts.Close()
	if asJSON {
		if err := w.lines(ctx, interval); err != nil {
			return interrupt.Exit(ctx, err)
		}
		return w.code()
	}
	if err := w.draw(ctx, interval); err != nil {
		return interrupt.Exit(ctx, err)
	}
	if err := w.o.Summarise(w.reader, w.run); err != nil {
		return err
	}
	return w.code()
}

// code returns an error with the run's exit code, or nil for 0.
func (w *Watch) code() error {
	if code := lifecycle.ExitCode(w.view.Latest()); code != fail.ExitDone {
		return fail.Exit(code)
	}
	return nil
}

// draw shows the live view on a terminal, or prints lines elsewhere, until the run has ended.
func (w *Watch) draw(ctx context.Context, interval time.Duration) error {
	shown, stop := context.WithCancel(ctx)
	defer stop()
	feed := terminal.NewFeed()
	events := &coordinator.Timeline{Reader: w.reader, Run: w.run.Run, Feed: feed}
	if err := events.Begin(ctx); err != nil {
		return err
	}
	over := false // read only after Live or Plain has returned
	config := terminal.Config{
		Interval: interval, Feed: feed, Out: w.o.Stdout, In: w.o.Stdin, Environ: os.Environ(),
		History: w.view.History, Logs: w.view.Logs,
		Poll: func(ctx context.Context) (stats.Status, error) {
			status, err := w.view.Poll(ctx)
			if err == nil {
				err = events.Update(ctx)
			}
			if err == nil && status.State != store.RunRunning {
				over = true
				stop()
			}
			return status, err
		},
	}
	if w.o.Interactive {
		if err := terminal.Live(shown, config); err == nil {
			if err := context.Cause(ctx); err != nil || over {
				return err
			}
			fmt.Fprintf(w.o.Stderr, "%s continues. To show it again: %s attach %s\n", w.run.Run, w.o.Advice.Program, w.run.Run)
			return fail.Exit(fail.ExitSignal + int(syscall.SIGINT))
		}
	}
	if err := terminal.Plain(shown, config); err != nil {
		return err
	}
	return context.Cause(ctx)
}

// lines prints the status at every interval until the run has ended, one JSON document per line.
func (w *Watch) lines(ctx context.Context, interval time.Duration) error {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	encoder := json.NewEncoder(w.o.Stdout)
	encoder.SetEscapeHTML(false)
	for {
		status, err := w.view.Poll(ctx)
		if err != nil {
			return err
		}
		if err := encoder.Encode(status); err != nil {
			return fmt.Errorf("write the status: %w", err)
		}
		if status.State != store.RunRunning {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticker.C:
		}
	}
}
