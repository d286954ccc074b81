package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"

	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/node/best"
	"github.com/sapo-swarm/swarm/node/journal"
	"github.com/sapo-swarm/swarm/node/task"
	"github.com/sapo-swarm/swarm/node/tokenizer"
)

// attempt is the work of one process of a node. It resumes from what previous processes left in the node's folder,
// continues the rounds, and leaves the folder ready for the next process.
type attempt struct {
	link    *Link
	model   *governed
	tokens  tokenizer.Tokenizer
	logger  *slog.Logger
	journal *journal.Journal
	saves   *checkpoints
	gauge   *gauge
	evals   *evaluations
	best    *best.Keeper // nil: none are kept

	stopGauge func()
	saved     int // rounds in the newest checkpoint
}

// openAttempt opens and locks the node's folder: no other process can write there until close.
func openAttempt(link *Link, model *governed, tokens tokenizer.Tokenizer, logger *slog.Logger) (*attempt, error) {
	start := model.start
	log, err := journal.Open(start.Dir, logger)
	if err != nil {
		return nil, err
	}
	l := &attempt{
		link: link, model: model, tokens: tokens, logger: logger, journal: log, stopGauge: func() {},
		saves: &checkpoints{dir: start.Dir, owner: owner{start.Run, start.Node, model.config.Model}, logger: logger},
		gauge: &gauge{link: link, meter: model.meter, logger: logger, share: sharing{ranks: max(1, start.Ranks)}},
	}
	if l.evals, err = openEvaluations(filepath.Join(start.Dir, evaluationsFile), start.Evaluated, logger); err != nil {
		return nil, errors.Join(err, log.Close())
	}
	l.saves.leftovers()
	return l, nil
}

func (l *attempt) close() {
	l.stopGauge()
	l.model.Close()
	if err := l.journal.Close(); err != nil {
		l.logger.Warn("journal not closed", "error", err)
	}
}

// run loads the model, resumes where the last process ended, and runs the rounds. It returns ErrStopped after a
// stop.
func (l *attempt) run(ctx context.Context, tasks *task.Set) error {
	start, cfg := l.model.start, l.model.config
	l.link.State(event.StateLoading, 0)
	parks := start.Leased && (cfg.ParamOffload || cfg.OptimizerOffload)
	host := &leaseHost{Link: l.link, governed: l.model, trims: start.TrimAfter || parks}
	previous := &recovery{
		dir: start.Dir, first: start.From, rounds: cfg.Rounds, recorded: max(start.Recorded, start.From),
		saves: l.saves, journal: l.journal, model: l.model, emit: l.link.Emit, evaluate: l.evaluate,
	}
	var err error
	if l.saved, err = l.load(ctx, host, previous); err != nil {
		return l.orStopped(err, 0)
	}
	n := &Node{
		ID: start.Node, Config: cfg, Policy: l.model, Tasks: tasks, Tokens: l.tokens, Host: host,
		Logger: l.logger, Context: l.model.running.loaded.ContextLength, Journal: l.journal,
		OnGPU: start.Device != "cpu",
		Mode:  Mode{GenerateOnly: start.GenerateOnly, Remote: start.Exchange.Worker != ""},
		Warn:  func(message string) { l.link.Emit(event.Event{Type: event.TypeWarning, Message: message}) },
	}
	if start.Verdicts != nil {
		n.Mode.Verdicts = l.link.Verdicts
	}
	if err := l.openHeldOut(n); err != nil {
		return err
	}
	if err := l.openSelection(n); err != nil {
		return err
	}
	if err := l.openSplit(n, previous.split); err != nil {
		return err
	}
	reached, err := previous.replay(ctx, n, l.saved)
	if err != nil {
		return l.orStopped(err, reached.first)
	}
	for _, e := range l.evals.settle(reached.first) {
		l.link.Emit(e)
	}
	if l.best != nil {
		l.best.Settle(reached.first)
	}
	n.Mode.Recovered = reached.recovered
	if reached.replayed > 0 {
		l.logger.Info("replayed", "rounds", reached.replayed, "first", reached.first, "seconds", reached.seconds)
		l.model.announce(reached)
	}

	n.remember(l.model.start, reached.first)
	if n.Swarm, err = l.join(ctx); err != nil {
		return &Failure{event.CauseExchange, err}
	}
	defer n.Swarm.Close()
	return l.rounds(ctx, n, reached.first)
}

// load starts the engine under a load lease and restores the newest usable state. It returns the number of rounds
// in that state. From then on the node sends heartbeats.
func (l *attempt) load(ctx context.Context, host *leaseHost, previous *recovery) (int, error) {
	release, err := host.Lease(ctx, phaseLoad)
	if err != nil {
		return 0, err
	}
	defer release()
	if err := l.model.open(ctx); err != nil {
		return 0, err
	}
	loaded := l.model.running.loaded
	if l.tokens.VocabSize() > loaded.VocabSize {
		return 0, &Failure{event.CauseModel, fmt.Errorf(
			"tokenizer %s has %d tokens, but the model only %d", l.tokens.Name(), l.tokens.VocabSize(), loaded.VocabSize)}
	}
	l.beat(ctx)
	rounds, err := previous.restore(ctx)
	if err != nil {
		return 0, err
	}
	release()
	l.model.announce(resumed{first: rounds})
	for _, message := range loadWarnings(l.model.config, l.model.start.Device, loaded, l.tokens) {
		l.link.Emit(event.Event{Type: event.TypeWarning, Message: message})
	}
	return rounds, nil
}

func (l *attempt) beat(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	var beating sync.WaitGroup
	beating.Go(func() { l.gauge.serve(ctx) })
	l.stopGauge = func() {
		cancel()
		beating.Wait()
	}
}

// orStopped reports the stopped state if err is ErrStopped.
func (l *attempt) orStopped(err error, round int) error {
	if errors.Is(err, ErrStopped) {
		l.link.State(event.StateStopped, round)
		return ErrStopped
	}
	return err
}
