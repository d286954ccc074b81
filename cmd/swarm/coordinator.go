package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime/debug"
	"sync"
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

// memoryLimit makes the collector give back what JetStream's block caches leave behind: the host's memory belongs to the nodes.
const memoryLimit = 48 << 20

// workersMemory is what others' nodes may take of this process's memory beside that: their batches, on the way through it. It is a limit to the
// collector's thrift, not a need: a few workers take a few MB.
const workersMemory = 512 << 20

// train runs the nodes until the rounds are done or somebody stops it, shows it meanwhile, and sums it up.
func (c *coordinator) train(ctx context.Context, interrupts *interrupt.Watch, asJSON bool) error {
	limit := int64(memoryLimit)
	if c.page != nil {
		limit += pageMemory
	}
	if c.admission != nil {
		limit += workersMemory
	}
	debug.SetMemoryLimit(limit)
	interactive := !asJSON && c.g.interactive()
	logger, chronicle, closeLog := c.logs(interactive)
	defer closeLog()
	if why := c.p.Plan.ShareWhy; why != "" {
		chronicle.Info("nodes share GPUs", "share", c.p.Plan.Share, "reason", why)
	}
	defer c.servePage(logger)()

	feed := terminal.NewFeed()
	shown, stopShow := context.WithCancel(context.WithoutCancel(ctx))
	var showing sync.WaitGroup
	var lines *printer
	if asJSON {
		lines = newPrinter(c.g.stdout)
		if c.admission != nil {
			c.admission.Print(c.g.stderr, c.g.invocation(), c.g.console != nil)
		}
	} else {
		printStart(c)
		showing.Go(func() { c.show(shown, feed, interactive, interrupts.Interrupt) })
	}
	result, err := c.launch(ctx, interrupts, feed, lines, logger, chronicle)
	c.end(result, err, lines)
	// All is recorded: from here on Ctrl-C ends the program at once, should stdout's reader hang.
	interrupts.Close()
	stopShow()
	showing.Wait()
	if lines != nil {
		lines.close()
	}
	shownErr := c.summarise(asJSON)
	if errors.Is(shownErr, syscall.EPIPE) {
		shownErr = nil // swarm up | head: the run is what counts
	}
	return errors.Join(shownErr, c.verdict(err))
}

// launch runs the nodes, and what watches over them, to the end.
func (c *coordinator) launch(ctx context.Context, interrupts *interrupt.Watch, feed *terminal.Feed, lines *printer, logger, chronicle *slog.Logger) (launch.Result, error) {
	exe, err := os.Executable()
	if err != nil {
		return launch.Result{}, fmt.Errorf("own program: %w", err)
	}
	args := []string{"node"}
	if c.g.verbose {
		args = append(args, "--verbose")
	}
	exe, args, env := c.p.Trainer.Process(exe, args)
	files, variable := c.g.python.Client().Share(3)
	env = append(env, variable)
	defer keepHost(ctx, &c.g.python, c.dir, logger)()
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	events := newRecorder(background, c, feed, lines, logger, chronicle, interrupts.Fail, interrupts.Now)
	events.answer = interrupts.Answer
	defer events.close()
	defer stop()
	events.Record(event.Event{Type: event.TypeRunStarted, Run: c.run, Time: c.clock.now()})
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
		// A fault must be known before the death that it caused is judged.
		spec.Faults, spec.FaultSettle = events.watchDevices(), deviceInterval+time.Second
	}
	if c.mps != nil {
		spec.Sharer = events.watchMPS(c.mps)
	}
	switch {
	case c.admission != nil:
		spec.Others = c.admission.Others
	case c.worker != nil:
		spec.Others = c.worker.Members
	}
	var result launch.Result
	if len(c.starts) == 0 {
		err = c.admission.Wait(ctx)
	} else {
		result, err = launch.Run(ctx, spec, events.Record, logger)
	}
	if c.admission != nil && err == nil {
		err = c.admission.Settle(ctx, logger)
	}
	if c.admission != nil {
		state, message := final(result, err)
		c.admission.Dismiss(background, interrupts.Now, state, message, logger)
	}
	return result, err
}

// meet begins to deal with other hosts, where there are any.
func (c *coordinator) meet(ctx context.Context, events *recorder, logger *slog.Logger) error {
	if c.worker != nil {
		c.worker.Start(ctx, events, logger)
	}
	if c.admission == nil {
		return nil
	}
	return c.admission.Start(ctx, c.asRun(), events, logger)
}

// show draws the run until ctx ends.
func (c *coordinator) show(ctx context.Context, feed *terminal.Feed, interactive bool, interrupt func(syscall.Signal, bool)) {
	sources := newViewing(c.reader, c.run, c.dir)
	view := terminal.Config{
		Poll: sources.poll, History: sources.history, Logs: sources.logs,
		Feed: feed, Out: c.g.stdout, In: c.g.stdin, Environ: os.Environ(),
		Interrupt: func(immediately bool) { interrupt(syscall.SIGINT, immediately) },
	}
	if c.page != nil {
		view.Page = c.page.url
	}
	if c.admission != nil {
		view.Join = c.admission.Hint(c.g.invocation())
	}
	if interactive {
		if err := terminal.Live(ctx, view); err == nil {
			return
		}
	}
	// A broken pipe is no reason to end a run of days.
	_ = terminal.Plain(ctx, view)
}

// end records how the run ended, and prints it where lines are wanted.
func (c *coordinator) end(result launch.Result, err error, lines *printer) {
	state, message := final(result, err)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	end := event.Event{Type: event.TypeRunEnded, Run: c.run, Time: c.clock.now(), State: event.State(state), Message: message}
	if err := errors.Join(c.store.Record(ctx, end), c.store.Flush(ctx)); err != nil {
		c.g.logger.Error("the run's end was not recorded", "error", err)
	}
	if lines != nil {
		lines.add(end)
	}
}

// final is the state that a run ends in, and why.
func final(result launch.Result, err error) (state, message string) {
	state = store.RunDone
	var stopped *interrupt.Error
	var full *diskError
	var over *workers.EndedError
	switch {
	case errors.As(err, &stopped):
		state, message = store.RunStopped, stopped.Error()
	case errors.As(err, &full):
		state, message = store.RunStopped, full.Error()
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

func (c *coordinator) summarise(asJSON bool) error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	status, err := lifecycle.Status(ctx, c.reader, c.run)
	if err != nil {
		return fmt.Errorf("read the run: %w", err)
	}
	rounds, err := c.reader.RoundRewards(ctx, c.run)
	if err != nil {
		return fmt.Errorf("read the rounds: %w", err)
	}
	c.summary = stats.NewSummary(status, rounds)
	if asJSON {
		return event.NewWriter(c.g.stdout).Write(summaryEvent{Type: event.TypeSummary, Time: event.Now(), Summary: c.summary})
	}
	return terminal.Summary(c.g.stdout, c.summary, terminal.Place{Database: c.g.home.Database(), Folder: c.dir, Next: c.next()})
}

// next are the commands to type after a run, as this user would type them.
func (c *coordinator) next() []string {
	program := c.g.invocation()
	var next []string
	if c.summary.State != store.RunDone {
		goesOn := c.g.goesOn(c.run, c.summary.Command) + "   (it goes on where this ended)"
		if remedy := c.worker.Remedy(); remedy != "" {
			goesOn = remedy
		}
		next = append(next, goesOn)
	}
	if c.worker != nil { // what it means beside others is the coordinator's to say
		return append(next, program+" status "+c.run, program+" eval "+c.run)
	}
	next = append(next, program+" status "+c.run, program+" compare")
	if baseline := c.baseline(); baseline != "" {
		next = append(next, baseline+"   (the baseline to compare with)")
	}
	return next
}

// verdict turns the launcher's result into the command's: a stop by signal is 128 + the signal.
func (c *coordinator) verdict(err error) error {
	var stopped *interrupt.Error
	if errors.As(err, &stopped) {
		return fail.Exit(fail.ExitSignal + int(stopped.Signal))
	}
	var over *workers.EndedError
	if errors.As(err, &over) {
		return over.Verdict()
	}
	var no *membership.Refusal
	if c.worker != nil && errors.As(err, &no) {
		return workers.Refused(err)
	}
	var full *diskError
	if errors.As(err, &full) {
		return fail.Hint(full, "free some space, or --home on a larger disk")
	}
	var lost *launch.LostError
	if errors.As(err, &lost) && len(lost.GivenUp) > 0 {
		if lost.GivenUp[0].Cause == event.CauseDevice {
			return fail.Hint(err, "swarm gpu, which says what to do about it")
		}
		return fail.Hint(err, "read "+runlog.Path(c.dir, lost.GivenUp[0].Node))
	}
	return err
}

// logs opens the coordinator's log in the run's folder. The logger writes there, and to stderr where the live view does not own the terminal;
// the chronicle there alone.
func (c *coordinator) logs(interactive bool) (logger, chronicle *slog.Logger, closeLog func()) {
	if c.g.console != nil { // in the background everything goes there
		return c.g.logger, c.g.logger, func() {}
	}
	file, err := supervise.OpenLog(runlog.Path(c.dir, runlog.Coordinator), 0)
	if err != nil {
		return c.g.logger, slog.New(slog.DiscardHandler), func() {}
	}
	level := slog.LevelInfo
	if c.g.verbose {
		level = slog.LevelDebug
	}
	handler := slog.NewTextHandler(file, &slog.HandlerOptions{Level: level})
	chronicle = slog.New(handler)
	logger = chronicle
	if !interactive {
		logger = slog.New(slog.NewMultiHandler(handler, c.g.logger.Handler()))
	}
	return logger, chronicle, func() { file.Close() }
}

func printStart(c *coordinator) {
	cfg := c.p.Config
	goesOn := ""
	if c.resume.run != nil {
		goesOn = " goes on"
	}
	trained, sizes := c.p.Trains(), fmt.Sprintf(" I/J/G %d/%d/%d,", cfg.NumTrainSamples, cfg.NumTransplantTrees, cfg.NumGenerations)
	if command := c.p.Trainer.Command; command != "" {
		trained, sizes = command, ""
	}
	// A reader of stdout who has gone ends no run.
	_ = screen.Print(c.g.stdout, func(p *table.Page) {
		p.Printf("%s%s: %s on %s, %s,%s %s, seed %d\n", c.run, goesOn, trained, c.p.Plan.Device, units.Plural(c.p.Plan.Nodes, "node"), sizes,
			units.Plural(cfg.Rounds, "round"), cfg.Seed)
		p.Println(c.p.Plan.Why)
		if why := c.p.Plan.ShareWhy; why != "" {
			p.Printf("share %s: %s\n", c.p.Plan.Share, why)
		}
	})
	c.tellPage()
	if c.admission != nil {
		c.admission.Print(c.g.stdout, c.g.invocation(), c.g.console != nil)
	}
}

// interactive tells whether there is a terminal to show a live view on and to take keys from.
func (g *globals) interactive() bool {
	return screen.IsTerminal(g.stdout) && screen.IsTerminal(g.stdin) && terminal.Capable(os.Environ())
}

// What up and join answer the first signal with: before any node has loaded there is nothing to save.
const (
	stopEarly = "Stopping: no node has started yet. Again to stop now."
	stopSaved = "Stopping after a checkpoint. Again to stop now."
)
