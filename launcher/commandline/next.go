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

// Advice names commands to type next.
type Advice struct {
	Program string // how this user types the program's name and its home
	Grammar Grammar
	Sources Sources
}

// GoesOn is the command that continues a run: of a run that a sweep began, the sweep's.
func (a Advice) GoesOn(run string, c *stats.Command) string {
	if c != nil && a.Grammar.Name(c.Arguments) == "sweep" {
		return typedLine(store.Command{Folder: c.Folder, Arguments: c.Arguments, Environment: c.Environment})
	}
	return a.Program + " resume " + run
}

// Baseline is the command of the run to compare this one with: without sharing, all else equal. It is empty where the
// run shares nothing itself, or where no command can say that, and in a sweep.
func (a Advice) Baseline(cfg configs.Config, trainer string, summary stats.Summary) string {
	if cfg.NumTransplantTrees == 0 || trainer != "" || summary.Model == plan.TrainerModel {
		return ""
	}
	if summary.Command != nil && a.Grammar.Name(summary.Command.Arguments) == "sweep" {
		return "" // which knows what it compares
	}
	nodes := 0
	for _, n := range summary.Nodes {
		if n.Worker == "" {
			nodes++
		}
	}
	// What makes one preset another is what is compared.
	compared := map[string]any{}
	for _, name := range []string{stats.BaselinePreset, cfg.Preset} {
		if values, err := configs.Experiment(name); err == nil {
			maps.Copy(compared, values)
		}
	}
	// A split that adapts has its own settings.
	leaveOut := append(slices.Collect(maps.Keys(compared)), "num_train_samples", "num_transplant_trees", "split", "rounds",
		"external_correction", "external_divergence", "external_filter", "external_filter_threshold") // without others' rollouts these decide nothing
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

// configFile is the path of the YAML file that a command of swarm up names; empty: none.
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
