package main

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/configs/resolve"
	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/metrics/stats"
)

// completer returns the possible completions. The shell keeps those that start with the typed word.
type completer func(cmd *cobra.Command) []cobra.Completion

// presetArguments maps commands whose arguments are experiment presets or YAML files to the maximum number of them.
var presetArguments = map[string]int{"up": 1, "plan": 1, "profile": 1, "tune": 1, "sweep": completedMost}

// completeValues completes presets, studies, models, workloads and tasks, each with a description, and the fixed
// values of flags.
func completeValues(cmd *cobra.Command) {
	if most, ok := presetArguments[cmd.Name()]; ok && cmd.ValidArgsFunction == nil {
		cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
			if len(args) >= most {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return offered(presetNames(cmd), args), cobra.ShellCompDirectiveDefault // a YAML file, too
		}
	}
	for flag, offer := range map[string]completer{
		"config": presetNames, "study": studyNames, "model": modelNames, "models": modelNames, "workload": workloadNames, "per": axisNames,
	} {
		if cmd.Flags().Lookup(flag) != nil {
			completeFlag(cmd, flag, offer, cobra.ShellCompDirectiveDefault) // or a file, or a folder
		}
	}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if key, ok := f.Value.(*resolve.KeyFlag); ok && key.Key.Kind == reflect.String && f.Name != "model" && f.Name != "models" {
			_ = cmd.RegisterFlagCompletionFunc(f.Name, func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
				if choices := key.Key.Choices(); choices != nil { // computed only when the shell completes, not at every start
					return choices, cobra.ShellCompDirectiveNoFileComp
				}
				return nil, cobra.ShellCompDirectiveDefault
			})
		}
	})
}

func completeFlag(cmd *cobra.Command, flag string, offer completer, directive cobra.ShellCompDirective) {
	_ = cmd.RegisterFlagCompletionFunc(flag, func(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return offer(cmd), directive
	}) // on an error the flag already has a completion
}

// offered removes completions that are already typed.
func offered(all []cobra.Completion, typed []string) []cobra.Completion {
	return slices.DeleteFunc(all, func(c cobra.Completion) bool {
		name, _, _ := strings.Cut(c, "\t")
		return slices.Contains(typed, name)
	})
}

func presetNames(*cobra.Command) (names []cobra.Completion) {
	for _, name := range configs.Experiments() {
		values, err := configs.Experiment(name)
		if err != nil {
			continue
		}
		what := fmt.Sprintf("%v own and %v external rollouts a round", values["num_train_samples"], values["num_transplant_trees"])
		if split, ok := values["split"]; ok {
			what = fmt.Sprintf("a split that adapts: %v", split)
		}
		names = append(names, cobra.CompletionWithDesc(name, what))
	}
	return names
}

func studyNames(*cobra.Command) (names []cobra.Completion) {
	for _, name := range configs.Studies() {
		if s, err := configs.LoadStudy(name); err == nil {
			names = append(names, cobra.CompletionWithDesc(name, s.Question))
		}
	}
	return names
}

func modelNames(*cobra.Command) (names []cobra.Completion) {
	for _, name := range configs.Models() {
		if m, err := configs.LoadModel(name); err == nil {
			names = append(names, cobra.CompletionWithDesc(name, units.Group(m.Shape.Parameters)+" parameters"))
		}
	}
	return names
}

func axisNames(*cobra.Command) (names []cobra.Completion) {
	for _, a := range stats.Axes() {
		names = append(names, cobra.CompletionWithDesc(a.Name, a.Label))
	}
	return names
}

func workloadNames(*cobra.Command) (names []cobra.Completion) {
	for _, name := range configs.Workloads() {
		if w, err := configs.LoadWorkload(name); err == nil {
			names = append(names, cobra.CompletionWithDesc(name, firstSentence.FindString(w.About)))
		}
	}
	return names
}

var firstSentence = regexp.MustCompile(`^[^.\n]*`)
