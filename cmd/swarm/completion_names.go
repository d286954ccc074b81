package main

import (
	"context"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sapo-swarm/swarm/internal/layout"
	"github.com/sapo-swarm/swarm/metrics/store"
	"github.com/sapo-swarm/swarm/node/task"
)

// completedMost is the maximum number of completions.
const completedMost = 200

// namedRuns maps commands whose arguments are runs or experiments to their maximum number of arguments; 0: any
// number.
var namedRuns = map[string]int{"status": 1, "attach": 1, "logs": 1, "down": 1, "verify": 1, "eval": 1, "workers": 1, "ls": 0, "rm": 0, "curve": 0, "export": 0}

// namedExperiments are the commands whose arguments are experiments.
var namedExperiments = []string{"compare", "report", "prune"}

// completeNames completes a command's arguments with recorded runs and experiments, the newest first.
func completeNames(g *globals, cmd *cobra.Command) {
	most, runs := namedRuns[cmd.Name()]
	if !runs && !slices.Contains(namedExperiments, cmd.Name()) {
		return
	}
	directive := cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	if cmd.Name() == "eval" { // it accepts a folder, too
		directive = cobra.ShellCompDirectiveKeepOrder
	}
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if most > 0 && len(args) >= most {
			return nil, directive
		}
		return recordedNames(cmd.Context(), g, runs, args), directive
	}
}

// completeDeeper completes other arguments and flags: nodes of a run, workers, tasks, runs to resume, experiments as
// a baseline.
func completeDeeper(g *globals, root *cobra.Command) {
	arguments := func(words string, offer func(ctx context.Context, args []string) []cobra.Completion) {
		cmd, _, err := root.Find(strings.Fields(words))
		if err != nil || cmd == root {
			return
		}
		before := cmd.ValidArgsFunction
		cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
			if before != nil && len(args) == 0 {
				return before(cmd, args, word)
			}
			return offered(offer(cmd.Context(), args), args), cobra.ShellCompDirectiveNoFileComp
		}
	}
	first := func(names func(ctx context.Context) []cobra.Completion) func(context.Context, []string) []cobra.Completion {
		return func(ctx context.Context, args []string) []cobra.Completion {
			if len(args) > 0 {
				return nil
			}
			return names(ctx)
		}
	}
	runs := func(ctx context.Context) []cobra.Completion { return recordedNames(ctx, g, true, nil) }
	arguments("logs", func(ctx context.Context, args []string) []cobra.Completion { return nodeNames(ctx, g, args[0]) })
	arguments("resume", first(runs))
	arguments("model prompt", first(runs))
	arguments("model save", func(ctx context.Context, args []string) []cobra.Completion {
		switch len(args) {
		case 0:
			return runs(ctx)
		case 1:
			return nodeNames(ctx, g, args[0])
		}
		return nil
	})
	for _, verb := range []string{"revoke", "ban", "unban"} {
		arguments("workers "+verb, first(func(context.Context) []cobra.Completion { return workerNames(g) }))
	}
	for _, verb := range []string{"sample", "score"} {
		arguments("task "+verb, first(func(context.Context) []cobra.Completion { return task.Names() }))
	}
	for words, flag := range map[string]string{"compare": "baseline", "report": "baseline"} {
		if cmd, _, err := root.Find([]string{words}); err == nil && cmd.Flags().Lookup(flag) != nil {
			completeFlag(cmd, flag, func(cmd *cobra.Command) []cobra.Completion { return recordedNames(cmd.Context(), g, false, nil) }, cobra.ShellCompDirectiveNoFileComp)
		}
	}
	for _, words := range []string{"eval", "model save"} {
		cmd, _, err := root.Find(strings.Fields(words))
		if err != nil {
			continue
		}
		_ = cmd.RegisterFlagCompletionFunc("node", func(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return nodeNames(cmd.Context(), g, strings.Join(args[:min(1, len(args))], "")), cobra.ShellCompDirectiveNoFileComp
		})
	}
}

// completionReader opens the home's database for a completion. It returns nil on an error because a completion can't
// print errors.
func completionReader(ctx context.Context, g *globals) *store.Reader {
	home, err := filepath.Abs(string(g.home))
	if err != nil {
		return nil
	}
	reader, err := store.OpenReader(ctx, filepath.Join(home, "swarm.db"))
	if err != nil {
		return nil
	}
	return reader
}

// nodeNames returns the nodes of a run, of an experiment's newest run, or, for an empty name, of the newest run.
func nodeNames(ctx context.Context, g *globals, run string) (names []cobra.Completion) {
	reader := completionReader(ctx, g)
	if reader == nil {
		return nil
	}
	defer reader.Close()
	snapshot, err := reader.Snapshot(ctx, run)
	if err != nil {
		return nil
	}
	for _, n := range snapshot.Nodes {
		if len(names) < completedMost && store.ValidExperiment(n.Node) { // the shell would execute other characters
			names = append(names, cobra.CompletionWithDesc(n.Node, "node, "+string(n.State)))
		}
	}
	return names
}

// workerNames returns the workers and invitations of the home.
func workerNames(g *globals) (names []cobra.Completion) {
	home, err := filepath.Abs(string(g.home))
	if err != nil {
		return nil
	}
	g.home = layout.Home(home)
	registry, err := g.registry()
	if err != nil {
		return nil
	}
	entries, err := registry.List()
	if err != nil {
		return nil
	}
	for _, e := range entries {
		if len(names) < completedMost && store.ValidExperiment(e.Name) {
			names = append(names, cobra.CompletionWithDesc(e.Name, e.Kind))
		}
	}
	return names
}

// recordedNames returns the recorded experiments, and the runs if runs is set, without names that are already typed.
func recordedNames(ctx context.Context, g *globals, runs bool, typed []string) []cobra.Completion {
	reader := completionReader(ctx, g)
	if reader == nil {
		return nil
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
		if !seen[name] && len(names) < completedMost && store.ValidExperiment(name) { // the shell would execute other characters
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
