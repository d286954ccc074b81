package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/shell"
	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/launcher/lifecycle"
	"github.com/sapo-swarm/swarm/metrics/store"
)

type pruneOptions struct {
	removal
	keep      int // -1: not given
	olderThan string
	states    []string

	seconds float64 // olderThan; 0: of any age
}

func newPruneCommand(g *globals) *cobra.Command {
	var o pruneOptions
	cmd := &cobra.Command{
		Use:   "prune [EXPERIMENT...] --keep N | --older-than AGE",
		Short: "Remove old runs: all but the newest few, or those of some age",
		Long: "prune removes runs that are done, of all experiments or of those named. --keep leaves the newest N of each experiment, --older-than those\n" +
			"that ended since then; with both a run must be beyond both. It shows what it would remove and asks. Runs that could go on (stopped,\n" +
			"crashed, lost, failed) are left alone unless --state names them, and imported runs always: they have no files. --files frees\n" +
			"the disk and keeps the records: compare, curve and report still show the runs.",
		Example: `  swarm prune --keep 3 --dry-run
  swarm prune --keep 1 --files
  swarm prune --older-than 30d --state done,failed,crashed
  swarm prune 4loc4ext --keep 3 --older-than 2w --yes`,
		RunE: func(cmd *cobra.Command, args []string) error { return runPrune(cmd.Context(), g, args, &o) },
	}
	f := cmd.Flags()
	f.IntVar(&o.keep, "keep", -1, "leave the newest `N` runs of each experiment, 0 or more")
	f.StringVar(&o.olderThan, "older-than", "", "only runs that ended longer than this `age` ago, such as 12h, 30d or 4w")
	f.StringSliceVar(&o.states, "state", []string{store.RunDone}, "only runs in these `states`: "+strings.Join(removable(), ", "))
	f.Lookup("keep").DefValue = "0" // which help leaves out
	o.add(f)
	return cmd
}

func (o *pruneOptions) check() error {
	if err := errors.Join(checkOutput(o.output), checkRemovable(o.states)); err != nil {
		return err
	}
	switch {
	case o.keep < -1:
		return &configs.Error{Key: "keep", Value: fmt.Sprint(o.keep), Allowed: "0 or more", Source: "--keep"}
	case o.keep < 0 && o.olderThan == "":
		return fail.Usage(errors.New("prune needs --keep or --older-than: which runs stay"), "swarm prune --keep 3 --dry-run")
	case o.olderThan != "":
		age, err := units.ParseAge(o.olderThan)
		if err != nil {
			return &configs.Error{Key: "older-than", Value: o.olderThan, Allowed: units.AgeRule, Source: "--older-than"}
		}
		o.seconds = age.Seconds()
	}
	return nil
}

// command is how this was typed, less --yes and --dry-run.
func (o *pruneOptions) command(experiments []string) string {
	words := []string{"prune"}
	for _, name := range experiments {
		words = append(words, shell.Quote(name))
	}
	if o.keep >= 0 {
		words = append(words, fmt.Sprintf("--keep %d", o.keep))
	}
	if o.olderThan != "" {
		words = append(words, "--older-than "+o.olderThan)
	}
	if states := strings.Join(o.states, ","); states != store.RunDone {
		words = append(words, "--state "+states)
	}
	if o.files {
		words = append(words, "--files")
	}
	return strings.Join(words, " ")
}

func runPrune(ctx context.Context, g *globals, experiments []string, o *pruneOptions) error {
	if err := o.check(); err != nil {
		return err
	}
	reader, err := g.openReader(ctx)
	if err != nil {
		return err
	}
	defer reader.Close()
	known, err := recordedOf(ctx, reader, experiments)
	if err != nil {
		return err
	}
	for i, name := range experiments {
		if i >= len(known) || known[i] != name {
			return lifecycle.UnknownExperiment(ctx, reader, name)
		}
	}
	all, err := lifecycle.List(ctx, reader, experiments, o.states)
	if err != nil {
		return err
	}
	root, err := lifecycle.RunsRoot(g.home)
	if err != nil {
		return g.home.Error(err)
	}
	if root != nil {
		lifecycle.Locate(g.home, root, all)
		root.Close()
	}
	var runs []lifecycle.Listed
	var left []leftRun
	for _, r := range o.choose(all) {
		if err := lifecycle.InUse(g.home, r); err != nil {
			left = append(left, leftRun{r.Run, err.Error()})
			continue
		}
		runs = append(runs, r)
	}
	return o.remove(ctx, g, reader, o.command(experiments), runs, left)
}

// choose are those of runs, the newest first, that go.
func (o *pruneOptions) choose(runs []lifecycle.Listed) []lifecycle.Listed {
	newer := map[string]int{} // runs of an experiment that came before
	var chosen []lifecycle.Listed
	for _, r := range runs {
		if r.Imported {
			continue
		}
		newer[r.Experiment]++
		if o.keep >= 0 && newer[r.Experiment] <= o.keep || r.AgeSeconds < o.seconds || o.files && r.Folder == nil {
			continue
		}
		chosen = append(chosen, r)
	}
	return chosen
}
