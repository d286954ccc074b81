package commandline

import (
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/configs/resolve"
	"github.com/sapo-swarm/swarm/internal/shell"
	"github.com/sapo-swarm/swarm/launcher/plan"
	"github.com/sapo-swarm/swarm/metrics/stats"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// Advice finds commands for the user to type next.
type Advice struct {
	Program string // the program's name and its home, as this user types them
	Grammar Grammar
	Sources Sources
}

// GoesOn returns the command that continues a run. For a run of a sweep that is the sweep's command.
func (a Advice) GoesOn(run string, c *stats.Command) string {
	if c != nil && a.Grammar.sweeps(c.Arguments) {
		return typedLine(store.Command{Folder: c.Folder, Arguments: c.Arguments, Environment: c.Environment})
	}
	return a.Program + " resume " + run
}

// Baseline returns the command of the run to compare this one with: the same settings without sharing. It returns
// "" if the run shares nothing itself, if no command can express its settings, and for a run of a sweep.
func (a Advice) Baseline(cfg configs.Config, trainer string, summary stats.Summary) string {
	if cfg.NumTransplantTrees == 0 || trainer != "" || summary.Model == plan.TrainerModel {
		return ""
	}
	if summary.Command != nil && a.Grammar.sweeps(summary.Command.Arguments) {
		return "" // a sweep makes its own comparisons
	}
	nodes := 0
	for _, n := range summary.Nodes {
		if n.Worker == "" {
			nodes++
		}
	}
	// Leave out the keys in which the two presets differ, because the comparison is about them.
	compared := map[string]any{}
	for _, name := range []string{stats.BaselinePreset, cfg.Preset} {
		if values, err := configs.Experiment(name); err == nil {
			maps.Copy(compared, values)
		}
	}
	// An adaptive split has its own settings.
	leaveOut := append(slices.Collect(maps.Keys(compared)), "num_train_samples", "num_transplant_trees", "split", "rounds",
		// no effect without shared rollouts
		"external_correction", "external_divergence", "external_filter", "external_filter_threshold")
	if cfg.EvalDraws == configs.DrawsNode {
		leaveOut = append(leaveOut, "eval_draws") // a new run has it anyway
	}
	leaveOut = slices.DeleteFunc(leaveOut, func(key string) bool { return key == "num_generations" })
	config := []string{stats.BaselinePreset}
	if file := a.configFile(summary.Command); file != "" {
		config = []string{file, stats.BaselinePreset}
	}
	flags, err := settingFlags(config, cfg, leaveOut, a.Sources)
	if err != nil {
		return ""
	}
	words := append([]string{"up", "--config", strings.Join(config, ","), "--nodes", strconv.Itoa(nodes), "--rounds", strconv.Itoa(cfg.Rounds)}, flags...)
	return a.Program + " " + shell.Line(words...)
}

// configFile returns the path of the YAML file that a command of swarm up names, or "".
func (a Advice) configFile(c *stats.Command) string {
	if c == nil || a.Grammar.Name(c.Arguments) != "up" {
		return ""
	}
	for _, w := range a.Grammar.words(c.Arguments) {
		if w.flag != "" && w.flag != "config" {
			continue
		}
		for _, name := range strings.Split(strings.TrimPrefix(w.text, "--config="), ",") {
			if !resolve.IsFile(name) || strings.HasPrefix(name, "-") {
				continue
			}
			if !filepath.IsAbs(name) {
				name = filepath.Join(c.Folder, name)
			}
			return name
		}
	}
	return ""
}
