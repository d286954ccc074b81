// Package coordinator runs one run on this host, from plan to summary. It prepares the run, starts its nodes,
// records what they report, and stops cleanly. It owns the database's writer and the run's folder. It must not import
// launcher/study or cmd.
package coordinator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/interrupt"
	"github.com/sapo-swarm/swarm/internal/screen"
	"github.com/sapo-swarm/swarm/internal/table"
	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/launcher/fit"
	"github.com/sapo-swarm/swarm/launcher/launch"
	"github.com/sapo-swarm/swarm/launcher/lifecycle"
	"github.com/sapo-swarm/swarm/launcher/runlog"
	"github.com/sapo-swarm/swarm/launcher/supervise"
	"github.com/sapo-swarm/swarm/launcher/workers"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/stats"
	"github.com/sapo-swarm/swarm/metrics/store"
	"github.com/sapo-swarm/swarm/metrics/terminal"
	"github.com/sapo-swarm/swarm/node/exchange/membership"
)

// memoryLimit makes the garbage collector return what JetStream's block caches leave behind, because the nodes need
// the host's memory. In bytes.
const memoryLimit = 48 << 20

// workersMemory is added to the limit for workers' batches that pass through this process. It only relaxes the
// garbage collector: a few workers need a few MB. In bytes.
const workersMemory = 512 << 20

// showLimit bounds how long the end of a run waits for the end of its view.
const showLimit = 10 * time.Second

// Train runs the nodes until the rounds are done or the run is stopped. It displays the running run, and prints its
// summary at the end.
func (c *Run) Train(ctx context.Context, interrupts *interrupt.Watch, asJSON bool) error {
	limit := int64(memoryLimit)
	if c.page != nil {
		limit += pageMemory
	}
	if c.o.Admission != nil {
		limit += workersMemory
	}
	debug.SetMemoryLimit(limit)
	interactive := !asJSON && c.h.Interactive
	logger, chronicle, closeLog := c.logs(interactive)
	defer closeLog()
	if why := c.p.Plan.ShareWhy; why != "" {
		chronicle.Info("nodes share GPUs", "share", c.p.Plan.Share, "reason", why)
	}
	defer c.servePage(logger)()

	feed := terminal.NewFeed()
	shown, stopShow := context.WithCancel(context.WithoutCancel(ctx))
	showing := make(chan struct{})
	var lines *event.Writer
	if asJSON {
		close(showing)
		lines = event.NewWriter(c.h.Stdout)
		if c.o.Admission != nil {
			c.o.Admission.Print(c.h.Stderr, c.h.Program, !screen.IsTerminal(c.h.Stderr))
		}
	} else {
		printStart(c)
		go func() {
			defer close(showing)
			c.show(shown, feed, interactive, interrupts.Interrupt)
		}()
	}
	result, err := c.launch(ctx, interrupts, feed, lines, logger, chronicle)
	c.end(result, err, lines)
	// Everything is recorded: from here on Ctrl-C ends the program at once, in case stdout's reader hangs.
	interrupts.Close()
	stopShow()
	select {
	case <-showing:
	case <-time.After(showLimit): // the live view's terminal hangs
	}
	_ = screen.Flush(c.h.Stdout) // makes room for the summary
	shownErr := c.summarise(asJSON)
	if errors.Is(shownErr, syscall.EPIPE) {
		shownErr = nil // swarm up | head: the run's result counts
	}
	return errors.Join(shownErr, c.verdict(err))
}

// launch runs the nodes and the watches to the end.
func (c *Run) launch(ctx context.Context, interrupts *interrupt.Watch, feed *terminal.Feed, lines *event.Writer, logger, chronicle *slog.Logger) (launch.Result, error) {
	exe, err := os.Executable()
	if err != nil {
		return launch.Result{}, fmt.Errorf("own program: %w", err)
	}
	args := []string{"node"}
	if c.h.Verbose {
		args = append(args, "--verbose")
	}
	exe, args, env := c.p.Trainer.Process(exe, args)
	files, variable := c.h.Python.Client().Share(3)
	env = append(env, variable)
	defer keepHost(ctx, c.h.Python, c.dir, logger)()
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	events := newRecorder(background, c, feed, lines, logger, chronicle, interrupts.Fail, interrupts.Now)
	events.answer = interrupts.Answer
	defer events.close()
	defer stop()
	events.Record(event.Event{Type: event.TypeRunStarted, Run: c.run, Time: c.clock.now()})
	if err := events.watchAlarm(background); err != nil {
		return launch.Result{}, err
	}
	if err := c.meet(background, events, logger); err != nil {
		return launch.Result{}, err
	}
	events.watchHost()
	spec := launch.Spec{
		Run: c.run, Exe: exe, Args: args, Env: env, Files: files, Starts: c.starts, Plan: c.p.Plan, Now: interrupts.Now,
		Restarts:    supervise.Policy{MaxRestarts: c.p.Config.MaxRestarts},
		CPUFallback: c.p.Config.CPUFallback,
	}
	if c.p.Plan.Device == fit.DeviceCUDA {
		// A fault must be known before the death that it caused is classified.
		spec.Faults, spec.FaultSettle = events.watchDevices(), deviceFault
	}
	if c.mps != nil {
		spec.Sharer = events.watchMPS(c.mps)
	}
	if events.verdicts != nil {
		spec.Verdicts = events.verdicts.get
	}
	switch {
	case c.o.Admission != nil:
		spec.Others = c.o.Admission.Others
	case c.o.Worker != nil:
		spec.Others = c.o.Worker.Members
	}
	var result launch.Result
	if len(c.starts) == 0 {
		err = c.o.Admission.Wait(ctx)
	} else {
		result, err = launch.Run(ctx, spec, events.Record, logger)
	}
	if c.o.Admission != nil && err == nil {
		err = c.o.Admission.Settle(ctx, logger)
	}
	if c.o.Admission != nil {
		state, message := final(result, err)
		c.o.Admission.Dismiss(background, interrupts.Now, state, message, logger)
	}
	return result, err
}

// meet starts the connection with other hosts, if there are any.
func (c *Run) meet(ctx context.Context, events *recorder, logger *slog.Logger) error {
	if c.o.Worker != nil {
		c.o.Worker.Start(ctx, events, logger)
	}
	if c.o.Admission == nil {
		return nil
	}
	return c.o.Admission.Start(ctx, c.Shared(), events, logger)
}

// show displays the run until ctx ends.
func (c *Run) show(ctx context.Context, feed *terminal.Feed, interactive bool, interrupt func(syscall.Signal, bool)) {
	sources := NewView(c.reader, c.run, c.dir)
	view := terminal.Config{
		Poll: sources.Poll, History: sources.History, Logs: sources.Logs,
		Feed: feed, Out: c.h.Stdout, In: c.h.Stdin, Environ: os.Environ(),
		Interrupt: func(immediately bool) { interrupt(syscall.SIGINT, immediately) },
	}
	if c.page != nil {
		view.Page = c.page.Link()
	}
	if c.o.Admission != nil {
		view.Join = c.o.Admission.Hint(c.h.Program)
	}
	if interactive {
		_ = screen.Flush(c.h.Stdout)
		live := view
		live.Out = screen.Stream(c.h.Stdout)
		if err := terminal.Live(ctx, live); err == nil {
			return
		}
	}
	// A broken pipe must not end a run of several days.
	_ = terminal.Plain(ctx, view)
}

// end records how the run ended. It also prints the event if lines is set.
func (c *Run) end(result launch.Result, err error, lines *event.Writer) {
	state, message := final(result, err)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	end := event.Event{Type: event.TypeRunEnded, Run: c.run, Time: c.clock.now(), State: event.State(state), Message: message}
	if err := errors.Join(c.store.Record(ctx, end), c.store.Flush(ctx)); err != nil {
		c.h.Logger.Error("the run's end was not recorded", "error", err)
	}
	if lines != nil {
		_ = lines.Write(end)
	}
}

// final returns the final state of a run, and the reason.
func final(result launch.Result, err error) (state, message string) {
	state = store.RunDone
	var stopped *interrupt.Error
	var full *diskError
	var alarm *alarmError
	var over *workers.EndedError
	switch {
	case errors.As(err, &stopped):
		state, message = store.RunStopped, stopped.Error()
	case errors.As(err, &full):
		state, message = store.RunStopped, full.Error()
	case errors.As(err, &alarm):
		state, message = store.RunStopped, alarm.Error()
	case errors.As(err, &over):
		state, message = over.State, over.Error()
	case errors.Is(err, launch.ErrLost) && result.Remaining > 0:
		state, message = store.RunLost, err.Error()
	case err != nil:
		state, message = store.RunFailed, err.Error()
	}
	return state, message
}

// summaryEvent is the last line of up -o json.
type summaryEvent struct {
	Type event.Type `json:"type"`
	Time float64    `json:"time"`
	stats.Summary
}

func (c *Run) summarise(asJSON bool) error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	var err error
	c.summary, err = Summary(ctx, c.reader, c.run)
	if err != nil {
		return err
	}
	return Summarise(c.h.Stdout, c.summary, asJSON, terminal.Place{Database: c.h.Home.Database(), Folder: c.dir, Next: c.next()})
}

// Summary returns the summary of a run.
func Summary(ctx context.Context, reader *store.Reader, run string) (stats.Summary, error) {
	status, err := lifecycle.Status(ctx, reader, run)
	if err != nil {
		return stats.Summary{}, fmt.Errorf("read the run: %w", err)
	}
	rounds, err := reader.RoundRewards(ctx, run)
	if err != nil {
		return stats.Summary{}, fmt.Errorf("read the rounds: %w", err)
	}
	return stats.NewSummary(status, rounds), nil
}

// Summarise prints a summary: as text with the next commands, or as the last line of up -o json.
func Summarise(out io.Writer, summary stats.Summary, asJSON bool, place terminal.Place) error {
	if asJSON {
		return event.NewWriter(out).Write(summaryEvent{Type: event.TypeSummary, Time: event.Now(), Summary: summary})
	}
	return terminal.Summary(out, summary, place)
}

// next returns the commands to type after a run, in this user's form.
func (c *Run) next() []string {
	if c.o.Worker == nil {
		return Next(c.h.Program, c.summary, c.o.GoesOn, c.o.Baseline)
	}
	var next []string
	if c.summary.State != store.RunDone {
		goesOn := c.o.GoesOn(c.run, c.summary.Command) + goesOnNote
		if remedy := c.o.Worker.Remedy(); remedy != "" {
			goesOn = remedy
		}
		next = append(next, goesOn)
	}
	// Only the coordinator can compare the run with others.
	return append(next, c.h.Program+" status "+c.run, c.h.Program+" eval "+c.run)
}

const goesOnNote = "   (continues from here)"

// Next returns the commands to type after a run of this host. program is the program's name as this user types it.
func Next(program string, summary stats.Summary, goesOn func(run string, c *stats.Command) string, baseline func(stats.Summary) string) []string {
	var next []string
	if summary.State != store.RunDone {
		next = append(next, goesOn(summary.Run, summary.Command)+goesOnNote)
	}
	next = append(next, program+" status "+summary.Run, program+" compare")
	if command := baseline(summary); command != "" {
		next = append(next, command+"   (the baseline to compare with)")
	}
	return next
}

// verdict turns the launcher's error into the command's. For a stop by signal the exit code is 128 + the signal.
func (c *Run) verdict(err error) error {
	var stopped *interrupt.Error
	if errors.As(err, &stopped) {
		return fail.Exit(fail.ExitSignal + int(stopped.Signal))
	}
	var over *workers.EndedError
	if errors.As(err, &over) {
		return over.Verdict()
	}
	var no *membership.Refusal
	if c.o.Worker != nil && errors.As(err, &no) {
		return workers.Refused(err)
	}
	var full *diskError
	if errors.As(err, &full) {
		return fail.Hint(full, "free some space, or --home on a larger disk")
	}
	var alarm *alarmError
	if errors.As(err, &alarm) {
		return fail.Hint(alarm, alarm.advice+", or swarm resume "+c.run+", which goes on with this one")
	}
	var lost *launch.LostError
	if errors.As(err, &lost) && len(lost.GivenUp) > 0 {
		if lost.GivenUp[0].Cause == event.CauseDevice {
			return fail.Hint(err, "swarm gpu and swarm doctor, which recommend fixes")
		}
		return fail.Hint(err, "read "+runlog.Path(c.dir, lost.GivenUp[0].Node))
	}
	return err
}

// logs opens the coordinator's log in the run's folder. logger writes to it, and also to stderr unless the live
// view owns the terminal. chronicle writes only to the log.
func (c *Run) logs(interactive bool) (logger, chronicle *slog.Logger, closeLog func()) {
	if c.h.Background { // in the background all output goes to the log
		return c.h.Logger, c.h.Logger, func() {}
	}
	file, err := supervise.OpenLog(runlog.Path(c.dir, runlog.Coordinator), 0)
	if err != nil {
		return c.h.Logger, slog.New(slog.DiscardHandler), func() {}
	}
	level := slog.LevelInfo
	if c.h.Verbose {
		level = slog.LevelDebug
	}
	handler := slog.NewTextHandler(file, &slog.HandlerOptions{Level: level})
	chronicle = slog.New(handler)
	logger = chronicle
	if !interactive {
		logger = slog.New(slog.NewMultiHandler(handler, c.h.Logger.Handler()))
	}
	return logger, chronicle, func() { file.Close() }
}

func printStart(c *Run) {
	cfg := c.p.Config
	goesOn := ""
	if c.resume.Run != nil {
		goesOn = " continues"
	}
	trained, sizes := c.p.Trains(), fmt.Sprintf(" I/J/G %d/%d/%d,", cfg.NumTrainSamples, cfg.NumTransplantTrees, cfg.NumGenerations)
	if command := c.p.Trainer.Command; command != "" {
		trained, sizes = command, ""
	}
	// Ignore errors: a closed stdout must not end a run.
	_ = screen.Print(c.h.Stdout, func(p *table.Page) {
		p.Printf("%s%s: %s on %s, %s,%s %s, seed %d\n", c.run, goesOn, trained, c.p.Plan.Device, units.Plural(c.p.Plan.Nodes, "node"), sizes,
			units.Plural(cfg.Rounds, "round"), cfg.Seed)
		p.Println(c.p.Plan.Why)
		if why := c.p.Plan.ShareWhy; why != "" {
			p.Printf("share %s: %s\n", c.p.Plan.Share, why)
		}
		for _, note := range c.p.Notes {
			p.Println(note)
		}
	})
	c.tellPage()
	if c.o.Admission != nil {
		c.o.Admission.Print(c.h.Stdout, c.h.Program, !screen.IsTerminal(c.h.Stdout))
	}
}

// Notices of up and join at the first signal. Before a node has loaded, there is nothing to save.
const (
	StopEarly = "Stopping: no node has started yet. Repeat to stop now."
	StopSaved = "Stopping after a checkpoint. Repeat to stop now."
)
