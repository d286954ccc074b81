package runs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/shell"
	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/launcher/lifecycle"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// Prune selects old runs.
type Prune struct {
	Keep      *int     // number of newest runs to keep per experiment; nil: not set
	OlderThan string   // an age, such as 30d; empty: any
	States    []string // of runs that may be removed

	seconds float64 // parsed OlderThan; 0: any age
}

// Check rejects invalid options.
func (o *Prune) Check() error {
	switch {
	case o.Keep != nil && *o.Keep < 0:
		return &configs.Error{Key: "keep", Value: fmt.Sprint(*o.Keep), Allowed: "0 or more", Source: "--keep"}
	case o.Keep == nil && o.OlderThan == "":
		return fail.Usage(errors.New("prune needs --keep or --older-than, which select the runs to keep"), "swarm prune --keep 3 --dry-run")
	case o.OlderThan != "":
		age, err := units.ParseAge(o.OlderThan)
		if err != nil {
			return &configs.Error{Key: "older-than", Value: o.OlderThan, Allowed: units.AgeRule, Source: "--older-than"}
		}
		o.seconds = age.Seconds()
	}
	return nil
}

// command returns the command as typed, without --yes and --dry-run.
func (o *Prune) command(experiments []string, files bool) string {
	words := []string{"prune"}
	for _, name := range experiments {
		words = append(words, shell.Quote(name))
	}
	if o.Keep != nil {
		words = append(words, fmt.Sprintf("--keep %d", *o.Keep))
	}
	if o.OlderThan != "" {
		words = append(words, "--older-than "+o.OlderThan)
	}
	if states := strings.Join(o.States, ","); states != store.RunDone {
		words = append(words, "--state "+states)
	}
	if files {
		words = append(words, "--files")
	}
	return strings.Join(words, " ")
}

// Prune removes the old runs of the named experiments, or of all if none is named.
func (o *Removal) Prune(ctx context.Context, reader *store.Reader, experiments []string, which *Prune) (*Removed, error) {
	recorded, err := reader.Runs(ctx, store.Filter{Experiments: experiments})
	if err != nil {
		return nil, err
	}
	for _, name := range experiments {
		if !slices.ContainsFunc(recorded, func(t store.Totals) bool { return t.Experiment == name }) {
			return nil, lifecycle.UnknownExperiment(ctx, reader, name)
		}
	}
	all, err := lifecycle.List(ctx, reader, experiments, which.States)
	if err != nil {
		return nil, err
	}
	root, err := lifecycle.RunsRoot(o.Home)
	if err != nil {
		return nil, o.Home.Error(err)
	}
	if root != nil {
		lifecycle.Locate(o.Home, root, all)
		root.Close()
	}
	var runs []lifecycle.Listed
	var left []LeftRun
	for _, r := range which.choose(all, o.Files) {
		if err := lifecycle.InUse(o.Home, r); err != nil {
			left = append(left, LeftRun{r.Run, err.Error()})
			continue
		}
		runs = append(runs, r)
	}
	return o.remove(ctx, reader, which.command(experiments, o.Files), runs, left)
}

// choose returns the runs to remove. runs must be sorted newest first.
func (o *Prune) choose(runs []lifecycle.Listed, files bool) []lifecycle.Listed {
	newer := map[string]int{} // number of runs of an experiment seen so far
	var chosen []lifecycle.Listed
	for _, r := range runs {
		if r.Imported {
			continue
		}
		newer[r.Experiment]++
		if o.Keep != nil && newer[r.Experiment] <= *o.Keep || r.AgeSeconds < o.seconds || files && r.Folder == nil {
			continue
		}
		chosen = append(chosen, r)
	}
	return chosen
}
