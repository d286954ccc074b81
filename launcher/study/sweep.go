// Package study runs studies and sweeps. It turns experiments and seeds into runs, starts the missing ones one
// after another as swarm up, and reports the verdict. Only the database tells it which runs are done. It must not
// import cmd.
package study

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/interrupt"
	"github.com/sapo-swarm/swarm/internal/screen"
	"github.com/sapo-swarm/swarm/launcher/lifecycle"
	"github.com/sapo-swarm/swarm/launcher/plan"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/stats/sweep"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// Sweep is a list of runs to do one after another. Only the database tells it which of them are done.
type Sweep struct {
	host    Host
	items   []*Item
	judge   *Judge  // nil: named configurations, for swarm compare
	pilots  *Pilots // nil: not swarm tune
	price   plan.Price
	passed  []string // flags for swarm up
	signals <-chan os.Signal
	lines   *lines // nil: print text
	locks   locks
	reader  *store.Reader // nil if there is no database yet
	folder  string        // for the log and the summary of this sweep
}

// Experiments returns the names of the experiments in order.
func (s *Sweep) Experiments() []string {
	var names []string
	for _, item := range s.items {
		if !slices.Contains(names, item.experiment()) {
			names = append(names, item.experiment())
		}
	}
	return names
}

// Serve does the remaining runs, and retries failed ones once. The error is a stop, or means that the sweep cannot
// continue. Failed runs are not an error.
func (s *Sweep) Serve(ctx context.Context, signals <-chan os.Signal) error {
	s.signals = signals
	status, err := s.Status(ctx)
	if err != nil {
		return err
	}
	s.lines.tell(Event{Type: Started, Runs: status.Runs, Sweep: &status})
	s.tellPilots(status)
	for n, item := range s.items {
		if err := s.turn(ctx, n, item); err != nil {
			return err
		}
	}
	for n, item := range s.items {
		if !item.failed() || item.code == fail.ExitUsage { // swarm up would reject it again
			continue
		}
		if err := s.turn(ctx, n, item); err != nil {
			return err
		}
	}
	return nil
}

// turn does an item's run, unless it is done. The error is a stop, or means that the database cannot be read or the
// run cannot be started.
func (s *Sweep) turn(ctx context.Context, n int, item *Item) error {
	var status sweep.Status
	for {
		var err error
		if status, err = s.Status(ctx); err != nil {
			return interrupt.Exit(ctx, err)
		}
		if status.Rows[n].State == store.RunDone {
			if item.done || item.tried > 0 {
				item.code = fail.ExitDone
				return nil
			}
			return s.adopt(ctx, n, item)
		}
		if status.Rows[n].StoppedByAlarm {
			item.alarmed = true
			return nil
		}
		waited, err := s.awaitOther(ctx, item)
		item.waited = item.waited || waited
		if err != nil {
			return err
		}
		if !waited {
			break
		}
	}
	s.tellStart(n, item, status)
	process, err := startChild(s.host, UpArguments(s.host.Home, item.Source, item.seed(), item.p.Plan.Nodes, s.passed, s.lines != nil), s.lines != nil)
	if err != nil {
		return err
	}
	item.tried++
	item.code, item.why = process.wait(s.signals)
	status, err = s.Status(context.WithoutCancel(ctx))
	if err != nil {
		return err
	}
	item.alarmed = status.Rows[n].StoppedByAlarm
	s.tellEnd(n, item, status)
	if ctx.Err() != nil {
		return interrupt.Exit(ctx, ctx.Err())
	}
	if item.code > fail.ExitSignal { // stopped by its keys or by swarm down
		return fail.Exit(item.code)
	}
	return nil
}

// adopt checks a run that another process has done meanwhile, and counts it or reports why not. The error means
// that the database cannot be read.
func (s *Sweep) adopt(ctx context.Context, n int, item *Item) error {
	err := s.recheck(ctx, item)
	if ctx.Err() != nil {
		return interrupt.Exit(ctx, ctx.Err())
	}
	item.code, item.waited = fail.ExitDone, true
	if err == nil {
		item.done = true
		return nil
	}
	item.tried, item.code, item.refused, item.why = 1, fail.ExitUsage, true, err.Error()
	status, err := s.Status(ctx)
	if err != nil {
		return err
	}
	s.tellEnd(n, item, status)
	return nil
}

// otherInterval is the time between checks of whether another process's run has ended.
const otherInterval = time.Second

// awaitOther waits while another process runs the item's experiment, usually the run of a killed sweep. It reports
// whether it had to wait.
func (s *Sweep) awaitOther(ctx context.Context, item *Item) (waited bool, err error) {
	progress := screen.NewStatusLine(s.host.Stderr, 10*time.Second)
	defer progress.End()
	ticker := time.NewTicker(otherInterval)
	defer ticker.Stop()
	for ; ; waited = true {
		if ctx.Err() != nil {
			return waited, interrupt.Exit(ctx, ctx.Err())
		}
		running := lifecycle.AlreadyRunning(s.host.Home, item.experiment())
		if running == nil {
			return waited, nil
		}
		if !waited {
			what, _ := fail.SplitRemedy(running.Error())
			fmt.Fprintf(s.host.Stderr, "%s: %s; waiting for its end (%s attach %s)\n", s.command(), what, s.host.Program, item.experiment())
		} else if status, err := lifecycle.Status(ctx, s.reader, item.experiment()); err == nil {
			progress.Say(fmt.Sprintf("%s: waiting for %s: round %d of %d", s.command(), status.Run, status.Round, status.Rounds))
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
		}
	}
}

// End prints the summary, calls finish if the sweep worked, and returns the command's error. err is Serve's. If the
// database cannot be read, it prints no summary, and finish gets one without runs.
func (s *Sweep) End(ctx context.Context, err error, finish func(Ending)) error {
	status, readErr := s.Status(ctx)
	if readErr != nil {
		err, status = errors.Join(err, readErr), sweep.New(nil, s.price.PerHour, s.price.Currency)
	}
	var stopped *fail.ExitError
	state, code := store.RunDone, fail.ExitDone
	switch {
	case errors.As(err, &stopped):
		state, code = store.RunStopped, stopped.Code
	case err != nil:
		state, code = store.RunFailed, fail.ExitFailed
	case status.Done == 0:
		state, code = store.RunFailed, fail.ExitFailed
	case status.Done+status.StoppedByAlarm < status.Runs:
		state, code = store.RunLost, fail.ExitLost
	}
	summary := Summary{Type: event.TypeSummary, Time: event.Now(), State: state, ExitCode: code, Status: status}
	var shown error
	if readErr == nil {
		summary.Study = s.verdict(ctx)
		shown = s.tellSummary(ctx, summary)
	}
	if errors.Is(shown, syscall.EPIPE) {
		shown = nil // swarm sweep | head
	}
	if s.worked() {
		s.reader.Close()
		s.reader = nil
		s.locks.release()
		s.locks = nil
		finish(s.ending(summary))
	}
	if err == nil && code != fail.ExitDone {
		err = fail.Exit(code) // the table shows the failed runs
	}
	return errors.Join(shown, err)
}

// Ending describes how a sweep ended.
type Ending struct {
	Experiments string // separated by blanks
	Folder      string // of the sweep's log
	Summary     Summary
}

func (s *Sweep) ending(summary Summary) Ending {
	return Ending{Experiments: strings.Join(s.Experiments(), " "), Folder: s.folder, Summary: summary}
}

// worked reports whether the sweep ran anything, or waited for another process's run. If everything was done already,
// there is nothing to report.
func (s *Sweep) worked() bool {
	return slices.ContainsFunc(s.items, func(i *Item) bool { return i.tried > 0 || i.waited })
}

// Status returns the sweep's progress as recorded in the database.
func (s *Sweep) Status(ctx context.Context) (sweep.Status, error) {
	rows, err := s.rows(ctx)
	if err != nil {
		return sweep.Status{}, err
	}
	return sweep.New(rows, s.price.PerHour, s.price.Currency), nil
}

// Open opens what a sweep needs besides its plan. The caller calls Close.
func (s *Sweep) Open(ctx context.Context) (err error) {
	if err := s.host.Home.Make(); err != nil {
		return err
	}
	if s.locks, err = lockSweep(s.host.Home, s.items); err != nil {
		return err
	}
	if err := checkDisk(s.host.Home, s.items); err != nil {
		return err
	}
	python, err := s.host.Python.Find(ctx)
	if err != nil {
		return err
	}
	for _, item := range s.items {
		if !item.done && plan.EngineDevice(item.p.Plan) != "cpu" && !python.CUDA {
			return plan.NoCUDA(python, item.String()+" is planned for a GPU")
		}
	}
	// Open the database for writing first: that creates it, or migrates an older one.
	db, err := store.Open(ctx, s.host.Home.Database(), store.Options{Warn: store.LogNews(s.host.Logger)})
	if err != nil {
		return err
	}
	if err := db.Close(); err != nil {
		return err
	}
	s.folder = s.host.Home.Path("sweeps", time.Now().UTC().Format("20060102T150405.000Z"))
	s.reader, err = store.OpenReader(ctx, s.host.Home.Database())
	return err
}

// Close closes what Open opened.
func (s *Sweep) Close() {
	if s.reader != nil {
		s.reader.Close()
	}
	s.locks.release()
}

// New resolves and checks every run of a sweep over names: configurations, or a study's experiments. With asJSON
// the sweep prints one event per line.
func New(ctx context.Context, h Host, o Options, names []string, cost plan.Price, passed []string, asJSON bool) (*Sweep, error) {
	sources, judge, err := o.sources(ctx, h, names)
	if err != nil {
		return nil, err
	}
	items, err := o.items(ctx, h, sources)
	if err != nil {
		return nil, err
	}
	if o.Grid != nil {
		judge = gridJudge(items, len(items)/len(sources))
	}
	s := &Sweep{host: h, items: items, judge: judge, pilots: o.Pilots, price: cost, passed: passed}
	switch {
	case o.Pilots != nil:
		s.showPilots(h.Stdout, h.Stderr, asJSON)
	case asJSON:
		s.lines = &lines{out: h.Stdout}
	}
	return s, nil
}

// command returns the name of the command that runs the sweep, with which its lines begin.
func (s *Sweep) command() string {
	if s.pilots != nil {
		return "tune"
	}
	return "sweep"
}

// Folder returns the folder for the sweep's log and summary. Open sets it.
func (s *Sweep) Folder() string { return s.folder }

// Runs returns the number of runs.
func (s *Sweep) Runs() int { return len(s.items) }

// Turn does run n (from 0), unless it is done, and returns the run's exit code. The error is a stop, or means that
// the database cannot be read or the run cannot be started.
func (s *Sweep) Turn(ctx context.Context, n int) (code int, err error) {
	err = s.turn(ctx, n, s.items[n])
	return s.items[n].code, err
}
