package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/interrupt"
	"github.com/sapo-swarm/swarm/launcher/coordinator"
	"github.com/sapo-swarm/swarm/launcher/lifecycle"
	"github.com/sapo-swarm/swarm/metrics/stats"
	"github.com/sapo-swarm/swarm/metrics/store"
	"github.com/sapo-swarm/swarm/metrics/terminal"
)

// watch shows a run from the database alone, beside whoever trains it.
type watch struct {
	g      *globals
	reader *store.Reader
	run    store.Run
	view   *coordinator.View
}

// newWatch finds the run to watch: the one of that name, a running one rather than another; with no name the one that runs, else the newest.
func newWatch(ctx context.Context, g *globals, reader *store.Reader, name string) (*watch, error) {
	running, err := lifecycle.Choose(ctx, reader, name, "attach")
	if err != nil {
		return nil, err
	}
	if running != nil {
		return watching(g, reader, running.Run), nil
	}
	snapshot, err := reader.Snapshot(ctx, name)
	if err != nil {
		return nil, lifecycle.NotFound(err, name)
	}
	return watching(g, reader, snapshot.Run), nil
}

func watching(g *globals, reader *store.Reader, run store.Run) *watch {
	return &watch{g: g, reader: reader, run: run, view: coordinator.NewView(reader, run.Run, g.home.Run(run.Run))}
}

// show shows the run until it ends, then what it came to; its error has the exit code of the run. Whoever leaves before, by a key or a
// signal, leaves with 130 or 143: a run that goes on is no success that a script should act on.
func (w *watch) show(ctx context.Context, interval time.Duration, asJSON bool) error {
	ctx, interrupts := interrupt.Notify(ctx, w.g.stderr, "Left. "+w.run.Run+" goes on.")
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
	if err := w.summarise(); err != nil {
		return err
	}
	return w.code()
}

// code is the error with the run's exit code, nil for 0.
func (w *watch) code() error {
	if code := lifecycle.ExitCode(w.view.Latest()); code != fail.ExitDone {
		return fail.Exit(code)
	}
	return nil
}

// draw shows the live view on a terminal, lines elsewhere, until the run has ended.
func (w *watch) draw(ctx context.Context, interval time.Duration) error {
	shown, stop := context.WithCancel(ctx)
	defer stop()
	feed := terminal.NewFeed()
	events := &coordinator.Timeline{Reader: w.reader, Run: w.run.Run, Feed: feed}
	if err := events.Begin(ctx); err != nil {
		return err
	}
	over := false // read once Live or Plain has returned
	config := terminal.Config{
		Interval: interval, Feed: feed, Out: w.g.stdout, In: w.g.stdin, Environ: os.Environ(),
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
	if w.g.interactive() {
		if err := terminal.Live(shown, config); err == nil {
			if err := context.Cause(ctx); err != nil || over {
				return err
			}
			fmt.Fprintf(w.g.stderr, "%s goes on. %s attach %s shows it again.\n", w.run.Run, w.g.invocation(), w.run.Run)
			return fail.Exit(fail.ExitSignal + int(syscall.SIGINT))
		}
	}
	if err := terminal.Plain(shown, config); err != nil {
		return err
	}
	return context.Cause(ctx)
}

// lines prints the status, one document a line, at every interval until the run has ended.
func (w *watch) lines(ctx context.Context, interval time.Duration) error {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	encoder := json.NewEncoder(w.g.stdout)
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

// summarise prints what the run came to, as swarm up does at its end.
func (w *watch) summarise() error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	var config configs.Config
	if err := json.Unmarshal(w.run.Config, &config); err != nil {
		return fmt.Errorf("read the configuration of %s: %w", w.run.Run, err)
	}
	summary, err := coordinator.Summary(ctx, w.reader, w.run.Run)
	if err != nil {
		return err
	}
	return w.g.summarise(summary, config, "", false)
}
