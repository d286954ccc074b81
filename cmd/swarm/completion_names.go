package main

import (
	"context"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/sapo-swarm/swarm/metrics/store"
)

// completedMost bounds what is offered for one tab.
const completedMost = 200

// namedRuns are the commands whose arguments are runs or experiments, and how many they take; 0: any number.
var namedRuns = map[string]int{"status": 1, "attach": 1, "logs": 1, "down": 1, "verify": 1, "eval": 1, "workers": 1, "ls": 0, "rm": 0, "curve": 0, "export": 0}

// namedExperiments are those whose arguments are experiments.
var namedExperiments = []string{"compare", "report", "prune"}

// completeNames has the shell offer recorded runs and experiments, the newest first, where a command takes them.
func completeNames(g *globals, cmd *cobra.Command) {
	most, runs := namedRuns[cmd.Name()]
	if !runs && !slices.Contains(namedExperiments, cmd.Name()) {
		return
	}
	directive := cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	if cmd.Name() == "eval" { // takes a folder, too
		directive = cobra.ShellCompDirectiveKeepOrder
	}
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if most > 0 && len(args) >= most {
			return nil, directive
		}
		return recordedNames(cmd.Context(), g, runs, args), directive
	}
}

// recordedNames are experiments, and with runs these too, without those that were typed already.
func recordedNames(ctx context.Context, g *globals, runs bool, typed []string) []cobra.Completion {
	home, err := filepath.Abs(string(g.home))
	if err != nil {
		return nil
	}
	reader, err := store.OpenReader(ctx, filepath.Join(home, "swarm.db"))
	if err != nil {
		return nil // a completion has no place for errors
	}
	defer reader.Close()
	all, err := reader.Runs(ctx, store.Filter{})
	if err != nil {
		return nil
	}
	var names []cobra.Completion
	seen := map[string]bool{}
	for _, name := range typed {
		seen[name] = true
	}
	offer := func(name, what string) {
		if !seen[name] && len(names) < completedMost && store.ValidExperiment(name) { // else the shell would run what is in it
			seen[name] = true
			names = append(names, cobra.CompletionWithDesc(name, what))
		}
	}
	for _, t := range slices.Backward(all) {
		if runs {
			offer(t.Run.Run, "run, "+t.State)
		}
		offer(t.Experiment, "experiment")
	}
	return names
}
