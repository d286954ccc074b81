package study

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/configs/resolve"
	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/files"
	"github.com/sapo-swarm/swarm/internal/shell"
	"github.com/sapo-swarm/swarm/metrics/query"
	"github.com/sapo-swarm/swarm/metrics/stats"
)

// longestExperiment bounds the length of an experiment's name.
const longestExperiment = 64

// Judge configures the comparison at a sweep's end, of each arm with each other.
type Judge struct {
	design  *stats.StudyDesign
	measure string
	flags   string // arguments of swarm compare that show the evidence for the verdict
	report  string // flags of swarm report; empty: it has none
}

// judgeOf returns a study's Judge.
func judgeOf(s *Study) (*Judge, error) {
	o, err := CompareOptions(s.Study, s.named)
	return &Judge{design: o.Study, measure: o.Measure, flags: s.Flags(), report: s.Flags()}, err
}

// parseGrid parses the values of --grid.
func parseGrid(texts []string, configurations int) (configs.Grid, error) {
	var grid configs.Grid
	for _, text := range texts {
		axis, err := configs.ParseAxis(text)
		if err != nil {
			return nil, configs.WithSource(err, "--grid")
		}
		grid = append(grid, axis)
	}
	return grid, configs.WithSource(grid.Check(configurations), "--grid")
}

// GridSources returns the arms of a sweep with --grid: every configuration with every combination of values.
func (o *Options) GridSources(h Host, names []string) ([]Source, error) {
	grid, err := parseGrid(o.Grid, len(names))
	if err != nil {
		return nil, err
	}
	given, err := o.Plan.Config.Layer()
	if err != nil {
		return nil, err
	}
	for _, axis := range grid {
		if value, twice := given.Values[axis.Key]; twice {
			return nil, &configs.Error{Key: axis.Key, Value: fmt.Sprint(value), Source: given.Sources[axis.Key], Allowed: "none: --grid sets it"}
		}
	}
	var out []Source
	for _, name := range names {
		flags := OptionsOf(o.Plan, Source{Name: name, Config: name}, o.NodesGiven)
		base, _, _, err := h.Sources(os.Environ(), false).Config(&flags.Config)
		if err != nil {
			return nil, err
		}
		for _, arm := range grid.Arms() {
			arm.Values["experiment"] = arm.Name(base.Experiment, longestExperiment)
			out = append(out, Source{Name: arm.Values["experiment"].(string), Config: name, Values: maps.Clone(arm.Values)})
		}
	}
	return out, nil
}

// gridJudge returns the Judge of a grid. The measure is held-out pass@1 if all arms are evaluated, else the reward.
// The first arm is the baseline. The grid compares the settings in which its arms differ.
func gridJudge(items []*Item, seeds int) *Judge {
	v := &Judge{design: &stats.StudyDesign{Name: "grid", Seeds: seeds}, measure: stats.MeasurePass}
	seen := map[string]bool{}
	flags := []string{}
	for _, item := range items {
		if item.p.Config.EvalQuestions == 0 {
			v.measure = stats.MeasureReward
		}
		if name := item.experiment(); !seen[name] {
			seen[name] = true
			v.design.Arms = append(v.design.Arms, stats.StudyArm{Name: name, Experiment: name})
			flags = append(flags, shell.Quote(name))
		}
	}
	v.design.Baseline, v.design.Keys = v.design.Arms[0].Name, comparedKeys(items)
	v.flags = strings.Join(flags, " ") + " --pairs --measure " + v.measure + " --baseline " + flags[0]
	known := query.SettingNames()
	if keys := slices.DeleteFunc(slices.Clone(v.design.Keys), func(key string) bool { return !slices.Contains(known, key) }); len(keys) > 0 {
		v.flags += " --despite " + strings.Join(keys, ",")
	}
	return v
}

// comparedKeys returns the settings in which a sweep's configurations differ, and settings that follow from them.
func comparedKeys(items []*Item) (keys []string) {
	first := items[0].p.Config
	for _, item := range items {
		c := item.p.Config
		c.Seed, c.Experiment = first.Seed, first.Experiment
		for _, d := range configs.Differences(first, c) {
			keys = append(keys, d.Key)
			switch d.Key {
			case "model", "models":
				keys = append(keys, "weights")
			case "swarm_size":
				keys = append(keys, "nodes")
			}
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// refuseStudyFile rejects a study's file in place of a configuration.
func refuseStudyFile(names []string) error {
	for _, name := range names {
		if !resolve.IsFile(name) {
			continue
		}
		text, err := files.ReadBounded(name, configs.MaxDocument)
		if err == nil && configs.IsStudy(text) {
			return fail.Usage(fmt.Errorf("%s is a study, not a configuration", name), "swarm sweep --study "+shell.Quote(name))
		}
	}
	return nil
}
