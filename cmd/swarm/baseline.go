package main

import (
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/configs/resolve"
	sh "github.com/sapo-swarm/swarm/internal/shell"
	"github.com/sapo-swarm/swarm/launcher/coordinator"
	"github.com/sapo-swarm/swarm/launcher/plan"
	"github.com/sapo-swarm/swarm/metrics/stats"
	"github.com/sapo-swarm/swarm/metrics/terminal"
)

// baseline is the command of the run to compare this one with: without sharing, all else equal. It is empty where the run shares nothing itself, or where no
// command can say that, and in a sweep.
func (g *globals) baseline(cfg configs.Config, trainer string, summary stats.Summary) string {
	if cfg.NumTransplantTrees == 0 || trainer != "" || summary.Model == plan.TrainerModel {
		return ""
	}
	if summary.Command != nil && commandName(summary.Command.Arguments) == "sweep" {
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
	leaveOut := append(slices.Collect(maps.Keys(compared)), "num_train_samples", "num_transplant_trees", "split", "rounds")
	leaveOut = slices.DeleteFunc(leaveOut, func(key string) bool { return key == "num_generations" })
	config := []string{stats.BaselinePreset}
	if file := configFile(summary.Command); file != "" {
		config = []string{file, stats.BaselinePreset}
	}
	flags, err := settingFlags(config, cfg, leaveOut)
	if err != nil {
		return ""
	}
	words := append([]string{"up", "--config", strings.Join(config, ","), "--nodes", strconv.Itoa(nodes), "--rounds", strconv.Itoa(cfg.Rounds)}, flags...)
	return g.invocation() + " " + sh.Line(words...)
}

// configFile is the path of the YAML file that a command of swarm up names; empty: none.
func configFile(c *stats.Command) string {
	if c == nil || commandName(c.Arguments) != "up" {
		return ""
	}
	for _, w := range typedWords(c.Arguments, commandFlags(c.Arguments)) {
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

// summarise prints what a run came to, and what to type next. trainer is its --node-command.
func (g *globals) summarise(summary stats.Summary, config configs.Config, trainer string, asJSON bool) error {
	place := terminal.Place{Database: g.home.Database(), Folder: g.home.Run(summary.Run)}
	place.Next = coordinator.Next(g.invocation(), summary, g.goesOn, func(s stats.Summary) string { return g.baseline(config, trainer, s) })
	return coordinator.Summarise(g.stdout, summary, asJSON, place)
}
