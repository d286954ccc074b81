package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/interrupt"
	"github.com/sapo-swarm/swarm/launcher/lifecycle"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/stats"
	"github.com/sapo-swarm/swarm/metrics/store"
	"github.com/sapo-swarm/swarm/metrics/terminal"
	"github.com/sapo-swarm/swarm/node/model"
)

// watch shows a run from the database alone, beside whoever trains it.
type watch struct {
	g      *globals
	reader *store.Reader
	run    store.Run
	view   *viewing
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
	return &watch{g: g, reader: reader, run: run, view: newViewing(reader, run.Run, g.home.Run(run.Run))}
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
	if code := lifecycle.ExitCode(w.view.latest()); code != fail.ExitDone {
		return fail.Exit(code)
	}
	return nil
}

// draw shows the live view on a terminal, lines elsewhere, until the run has ended.
func (w *watch) draw(ctx context.Context, interval time.Duration) error {
	shown, stop := context.WithCancel(ctx)
	defer stop()
	feed := terminal.NewFeed()
	events := &timeline{reader: w.reader, run: w.run.Run, feed: feed}
	if err := events.begin(ctx); err != nil {
		return err
	}
	over := false // read once Live or Plain has returned
	config := terminal.Config{
		Interval: interval, Feed: feed, Out: w.g.stdout, In: w.g.stdin, Environ: os.Environ(),
		History: w.view.history, Logs: w.view.logs,
		Poll: func(ctx context.Context) (stats.Status, error) {
			status, err := w.view.poll(ctx)
			if err == nil {
				err = events.take(ctx)
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
		status, err := w.view.poll(ctx)
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
	c := &coordinator{g: w.g, run: w.run.Run, dir: w.g.home.Run(w.run.Run), reader: w.reader}
	if err := json.Unmarshal(w.run.Config, &c.p.Config); err != nil {
		return fmt.Errorf("read the configuration of %s: %w", w.run.Run, err)
	}
	// For the commands to type next only: a model that has gone since is no matter.
	c.p.Model, _ = model.Find(c.p.Config.Model)
	return c.summarise(false)
}

// timeline puts what happens to a run into a feed.
type timeline struct {
	reader *store.Reader
	run    string
	feed   *terminal.Feed
	seen   int64
}

const (
	timelinePage = 500
	timelinePast = 10 * 60 // seconds before the first look that are still shown
)

// begin skips what is long past.
func (t *timeline) begin(ctx context.Context) error {
	since := event.Now() - timelinePast
	return t.pages(ctx, func(e event.Event) {
		if e.Time >= since {
			t.feed.Add(e)
		}
	})
}

// take adds what is new.
func (t *timeline) take(ctx context.Context) error { return t.pages(ctx, t.feed.Add) }

func (t *timeline) pages(ctx context.Context, take func(event.Event)) error {
	for {
		entries, err := t.reader.Timeline(ctx, t.run, t.seen, timelinePage)
		if err != nil {
			return err
		}
		for _, e := range entries {
			t.seen = e.ID
			take(e.Event)
		}
		if len(entries) < timelinePage {
			return nil
		}
	}
}
