package verify

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"strings"

	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/node"
	"github.com/sapo-swarm/swarm/node/journal"
	"github.com/sapo-swarm/swarm/node/policy"
	"github.com/sapo-swarm/swarm/node/task"
)

const (
	maxDifferences = 20 // per node; the first ones tell the most
	readAhead      = 64 // rounds read from the database at a time
)

// damage is the error that ends the check of a node because a required record can't be read.
type damage struct{ err error }

func (d *damage) Error() string { return d.err.Error() }
func (d *damage) Unwrap() error { return d.err }

// check verifies one node, round by round.
type check struct {
	options Options
	tasks   *task.Set
	report  NodeReport

	engine   Engine
	recorded map[int]event.Round // the database's rounds, from ahead-readAhead on
	ahead    int                 // first round that has not been read from the database
	over     bool                // the database has no more rounds
	hashes   map[int]string
	drifted  int // rounds with another loss or gradient norm, on an inexact device
	others   int // rounds with other completions, on an inexact device
}

func (c *check) run(ctx context.Context) error {
	var err error
	if c.hashes, err = c.options.Records.Hashes(ctx, c.report.Node); err != nil {
		return err
	}
	engine, length, err := c.options.Start(ctx, c.report.Node)
	if err != nil {
		return err
	}
	defer engine.Close()
	c.engine, c.recorded, c.ahead = engine, map[int]event.Round{}, c.options.From[c.report.Node]
	replay := &replay{check: c}
	agent := &node.Node{
		ID: c.report.Node, Config: c.options.Config, Policy: replay, Tasks: c.tasks, Tokens: c.options.Tokens, Swarm: replay, Host: replay,
		Logger: c.options.Logger, Context: length, Mode: node.Mode{Decided: replay.split, Verdicts: replay.verdicts},
	}
	if c.options.Config.EvalQuestions > 0 {
		if agent.HeldOut, err = node.OpenHeldOut(agent.Config, agent.Tasks, agent.Tokens, agent.Context); err != nil {
			return err
		}
	}
	if agent.Selection, err = node.OpenSelection(agent.Config, agent.Tasks, agent.Tokens, agent.Context, agent.HeldOut); err != nil {
		return err
	}
	if agent.Validation, err = node.OpenValidation(agent.Config, agent.Tasks, agent.Tokens, agent.Context, agent.HeldOut); err != nil {
		return err
	}
	err = c.rounds(ctx, agent, replay)
	var broken *damage
	var differs *Difference
	switch {
	case errors.As(err, &broken):
		c.report.Damage = broken.Error()
	case errors.As(err, &differs):
		c.add(*differs)
	case err != nil:
		return err
	}
	c.files()
	if c.report.Partial > 0 {
		c.report.Notes = append(c.report.Notes, fmt.Sprintf(
			"%d of %d rounds were checked only in part: rollouts from other hosts are not stored here, so that part of the training set comes from the journal",
			c.report.Partial, c.report.Rounds))
	}
	if c.others > 0 {
		c.report.Notes = append(c.report.Notes, fmt.Sprintf(
			"completions generated again differ in %d of %d rounds: %s", c.others, c.report.Rounds, c.options.Inexact))
	}
	if c.drifted > 0 {
		c.report.Notes = append(c.report.Notes, fmt.Sprintf(
			"loss or gradient norm differs in its bits in %d of %d rounds: %s", c.drifted, c.report.Rounds, c.options.Inexact))
	}
	return nil
}

// rounds checks the journal's rounds, and that the database has the same rounds.
func (c *check) rounds(ctx context.Context, agent *node.Node, replay *replay) error {
	first := c.options.From[c.report.Node]
	next, stop := iter.Pull2(journal.Rounds(filepath.Join(c.options.Dir, c.report.Node), first))
	defer stop()
	for round := first; ; round++ {
		known, inDatabase, err := c.record(ctx, round)
		if err != nil {
			return err
		}
		logged, err, any := next()
		switch {
		case !any && !inDatabase:
			return nil
		case any && err != nil:
			return &damage{fmt.Errorf("journal: %w", err)}
		case !any || logged.Round != round || logged.Trained == nil && inDatabase || logged.Generated == nil && inDatabase:
			return &damage{fmt.Errorf("journal: round %d is missing, but the database has it", round)}
		case !inDatabase && logged.Done != nil:
			return c.differs(round, "round", Database, "a row", "none")
		case !inDatabase:
			return nil // the run ended within this round
		}
		if err := c.round(ctx, agent, replay, logged, known); err != nil {
			return err
		}
		c.report.Rounds++
		if replay.partial {
			c.report.Partial++
		}
		c.options.Progress(c.report.Node, round+1)
	}
}

// round repeats one round and compares the result.
func (c *check) round(ctx context.Context, agent *node.Node, replay *replay, logged journal.Round, known event.Round) error {
	replay.take(logged)
	if err := replay.checkSplit(); err != nil {
		return err
	}
	agent.Mode.GenerateOnly = logged.Trained.Report.GenerateOnly
	report, err := agent.Round(ctx, logged.Round)
	if err != nil {
		return err
	}
	scored := scored
	if replay.partial {
		scored = own
	} else {
		c.comparePeers(logged.Round, report, logged.Trained.Report)
	}
	c.compareTasks(logged.Round, report, logged.Trained.Report)
	c.compare(logged.Round, Journal, report, logged.Trained.Report, scored)
	if logged.Done != nil {
		if logged.Done.Event.Round == nil {
			return &damage{fmt.Errorf("journal: round %d has no report", logged.Round)}
		}
		c.compare(logged.Round, Journal, report, *logged.Done.Event.Round, scored, stepped)
		c.learned(logged.Round, Journal, report, *logged.Done.Event.Round)
	}
	c.compare(logged.Round, Database, report, known, scored, stepped)
	c.learned(logged.Round, Database, report, known)
	return c.weights(ctx, logged.Round+1)
}

// files adds the damage of the checkpoint files that are still on disk. weights compares only recorded hashes.
func (c *check) files() {
	damaged := node.CheckFiles(filepath.Join(c.options.Dir, c.report.Node))
	if len(damaged) == 0 {
		return
	}
	text := "checkpoint " + strings.Join(damaged, "; ")
	if c.report.Damage != "" {
		text = c.report.Damage + "; " + text
	}
	c.report.Damage = text
}

// learned compares the update's results. On an inexact device it only counts differences.
func (c *check) learned(round int, where string, got, found event.Round) {
	if c.options.Exact {
		c.compare(round, where, got, found, learned)
	} else if where == Database && unequal(got, found, learned) != nil {
		c.drifted++
	}
}

// weights compares the weights after a number of rounds if a checkpoint of them is recorded.
func (c *check) weights(ctx context.Context, rounds int) error {
	found := c.hashes[rounds]
	if found == "" {
		return nil
	}
	path := filepath.Join(c.options.Scratch, c.report.Node)
	defer os.RemoveAll(path)
	saved, err := c.engine.Save(ctx, policy.SaveParams{Path: path, Format: "huggingface", DType: "float16"}) // the smallest format that gives the hash
	if err != nil {
		return fmt.Errorf("hash the weights after %s: %w", units.Plural(rounds, "round"), err)
	}
	c.report.Checkpoints++
	switch {
	case saved.WeightHash == found:
		c.report.EqualHashes++
	case c.options.Exact:
		return c.differs(rounds-1, "weight_hash", Database, saved.WeightHash, found)
	}
	return nil
}

// record returns the database's row of a round.
func (c *check) record(ctx context.Context, round int) (event.Round, bool, error) {
	if round >= c.ahead && !c.over {
		clear(c.recorded)
		rows, err := c.options.Records.Rounds(ctx, c.report.Node, round, readAhead)
		if err != nil {
			return event.Round{}, false, err
		}
		c.over = len(rows) < readAhead
		for _, r := range rows {
			c.recorded[r.Round] = r
			c.ahead = r.Round + 1
		}
	}
	r, known := c.recorded[round]
	if !known && round < c.ahead {
		return r, false, c.differs(round, "round", Database, "a row", "none")
	}
	return r, known, nil
}

func (c *check) differs(round int, what, where, expected, found string) *Difference {
	return &Difference{Node: c.report.Node, Round: round, What: what, Where: where, Expected: expected, Found: found}
}

func (c *check) add(d Difference) {
	if len(c.report.Differences) < maxDifferences {
		c.report.Differences = append(c.report.Differences, d)
	}
}
