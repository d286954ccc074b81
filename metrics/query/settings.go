package query

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/metrics/stats"
	"github.com/sapo-swarm/swarm/metrics/store"
	"github.com/sapo-swarm/swarm/metrics/store/neutral"
)

// sharing are the keys of how nodes share: SAPO's own, which a comparison is about.
var sharing = []string{
	"num_train_samples", "num_transplant_trees", "zero_advantage_filter", "external_sampling", "external_advantage", "external_correction",
	"external_divergence", "external_filter", "external_filter_threshold", "external_lag", "split", "split_alpha", "split_ema", "split_every",
}

// Subjects of several keys, as `--despite` takes them.
const (
	subjectTasks  = "tasks"  // tasks.mixture, tasks.file, tasks.words and what these files hold
	subjectModel  = "model"  // with its weights, and the keys that are as its preset has them
	subjectModels = "models" // with members.*
)

// facts are settings that a run has beside its configuration's keys.
var facts = []string{"nodes", "gpu", "weights", "swarm", "torch"}

// SettingNames are the settings that a comparison can be asked to overlook: the configuration's keys, what else a run
// has, and subjects of several.
func SettingNames() []string {
	names := slices.Concat(configs.Keys(), facts, []string{subjectTasks})
	names = slices.DeleteFunc(names, func(name string) bool { return slices.Contains(unlisted, name) })
	slices.Sort(names)
	return slices.Compact(names)
}

// unlisted are keys that are no setting: rows are named after the experiment, and a row's runs differ in the seed.
var unlisted = []string{"experiment", "seed"}

// CheckDespite refuses what is no setting. The error is a *configs.Error.
func CheckDespite(names []string) error {
	known := SettingNames()
	for _, name := range names {
		if slices.Contains(known, name) {
			continue
		}
		remedy := "not a setting; settings are the configuration's keys, nodes, gpu, weights, swarm, torch and tasks"
		if near := units.Nearest(name, known); near != "" {
			remedy = fmt.Sprintf("did you mean %q?", near)
		}
		return &configs.Error{Key: "despite", Value: name, Remedy: remedy}
	}
	return nil
}

// Differ returns a function that lists the settings in which two runs differ, by name, for stats.CompareOptions. It
// keeps what it has read of runs, by their key.
func Differ() func(a, b store.Totals) []stats.RunDifference {
	known := map[string]*settings{}
	read := func(r store.Totals) *settings {
		if known[r.Run.Run] == nil {
			known[r.Run.Run] = newSettings(r)
		}
		return known[r.Run.Run]
	}
	return func(a, b store.Totals) []stats.RunDifference { return differences(read(a), read(b)) }
}

// settings are the settings of a run.
type settings struct {
	config   configs.Config
	ours     bool   // its configuration is one of ours; else only the run's own row tells
	text     string // of config
	defaults map[string]any
	facts    map[string]string
	inputs   map[string]string // contents of what it read, by name
}

func newSettings(r store.Totals) *settings {
	s := &settings{facts: map[string]string{}}
	// Where a file lies decides nothing, and isn't known of imported runs.
	err := json.Unmarshal(neutral.DocumentWithoutFolders(r.Config), &s.config)
	s.ours = err == nil && s.config.Model != ""
	s.config.Seed, s.config.Experiment = 0, ""
	if !s.ours {
		s.config = configs.Config{NumTrainSamples: r.NumTrainSamples, NumTransplantTrees: r.NumTransplantTrees, NumGenerations: r.NumGenerations,
			Model: r.Model, Rounds: r.Rounds, Preset: r.Preset}
	}
	text, err := json.Marshal(s.config)
	if err == nil {
		s.text = string(text)
	}
	s.defaults = defaultsOf(s.config.Model)
	s.addFacts(r)
	return s
}

// addFacts reads what the run's row, its plan and its versions tell.
func (s *settings) addFacts(r store.Totals) {
	var plan struct {
		Share string `json:"share"`
		GPUs  []struct {
			Index int    `json:"index"`
			Name  string `json:"name"`
		} `json:"gpus"`
		Placement []struct {
			GPU *int `json:"gpu"`
		} `json:"placement"`
	}
	var made versions
	_ = json.Unmarshal(r.Plan, &plan) // of another trainer or program, or an import: then these aren't known
	_ = json.Unmarshal(r.Versions, &made)
	s.facts["nodes"] = strconv.Itoa(stats.UsedNodes(r))
	device, _, _ := strings.Cut(r.Device, ":")
	s.facts["device"] = device
	if s.ours {
		s.facts["precision"] = s.config.ResolvedPrecision(device == "cuda")
	}
	s.facts["share"], s.facts["swarm"], s.facts["torch"] = plan.Share, made.Swarm, made.Torch
	var cards []string
	for _, g := range plan.GPUs {
		for _, p := range plan.Placement {
			if p.GPU != nil && *p.GPU == g.Index {
				cards = append(cards, g.Name)
				break
			}
		}
	}
	slices.Sort(cards)
	s.facts["gpu"] = strings.Join(cards, ", ")
	s.inputs = map[string]string{}
	for name, sum := range made.Inputs {
		s.inputs[neutral.WithoutFolders(name)] = sum
	}
}

// defaultsOf are the values that a model's preset has for its experiments, by key, and the program's where it has none.
func defaultsOf(model string) map[string]any {
	m, err := configs.LoadModel(model)
	if err != nil {
		return nil
	}
	own, err := configs.PresetValues(m.Defaults)
	if err != nil {
		return nil
	}
	values := configs.Values(configs.Default())
	maps.Copy(values, own)
	return values
}

func differences(a, b *settings) []stats.RunDifference {
	var list []stats.RunDifference
	if a.text != b.text {
		list = configDifferences(a, b)
	}
	models := slices.ContainsFunc(list, func(d stats.RunDifference) bool { return d.Subject == subjectModel || d.Subject == subjectModels })
	for _, key := range slices.Sorted(maps.Keys(a.facts)) {
		x, y := a.facts[key], b.facts[key]
		if x == y || (x == "" || y == "") && key != "gpu" || key == "gpu" && a.facts["device"] != b.facts["device"] {
			continue // what isn't known of one isn't known to differ
		}
		list = slices.DeleteFunc(list, func(d stats.RunDifference) bool { return d.Key == key })
		list = append(list, stats.RunDifference{Key: key, Effect: factEffect(key, x, y), A: orNone(x), B: orNone(y)})
	}
	for name, x := range a.inputs {
		y, ok := b.inputs[name]
		if !ok || x == y || name == "model" && models {
			continue
		}
		d := stats.RunDifference{Key: name + " (contents)", Effect: stats.EffectResult, A: digest(x, y), B: digest(y, x)}
		switch {
		case name == "model":
			d.Key = "weights"
		case strings.HasPrefix(name, "tasks."):
			d.Subject, d.Effect = subjectTasks, stats.EffectQuestions
		}
		list = append(list, d)
	}
	slices.SortFunc(list, func(x, y stats.RunDifference) int { return strings.Compare(x.Key, y.Key) })
	return list
}

// configDifferences are those of the configurations. Keys that are on both sides as the model's preset has them go with
// the model.
func configDifferences(a, b *settings) []stats.RunDifference {
	var list []stats.RunDifference
	values := [2]map[string]any{configs.Values(a.config), configs.Values(b.config)}
	for _, d := range configs.Differences(a.config, b.config) {
		if slices.Contains(unlisted, d.Key) {
			continue
		}
		x := stats.RunDifference{Key: d.Key, Effect: effect(d), A: d.Before, B: d.After}
		switch {
		case d.Key == "model":
			x.Subject = subjectModel
		case d.Key == "models", strings.HasPrefix(d.Key, "members."):
			x.Subject = subjectModels
		case questions(d.Key):
			x.Subject = subjectTasks
		case a.config.Model != b.config.Model && a.defaults != nil && b.defaults != nil &&
			values[0][d.Key] == a.defaults[d.Key] && values[1][d.Key] == b.defaults[d.Key]:
			x.Subject = subjectModel
		}
		list = append(list, x)
	}
	return list
}

// effect is what a difference in a key can do to a comparison: the table in docs/METRICS.md.
func effect(d configs.Difference) string {
	switch {
	case slices.Contains(sharing, d.Key):
		return stats.EffectSharing
	case questions(d.Key):
		return stats.EffectQuestions
	case d.Class == configs.ClassExperiment:
		return stats.EffectResult
	case d.Class == configs.ClassName:
		return stats.EffectName
	}
	return stats.EffectNone
}

// questions tells whether a key decides what is asked.
func questions(key string) bool {
	return key == "tasks.file" || key == "tasks.words" || key == configs.MixtureKey || strings.HasPrefix(key, configs.MixtureKey+".")
}

// factEffect is the same of a fact. fp32 and tf32 learn alike; 16 bits may not.
func factEffect(key, a, b string) string {
	full := []string{"fp32", "tf32"}
	switch {
	case key == "nodes", key == "precision" && !(slices.Contains(full, a) && slices.Contains(full, b)):
		return stats.EffectResult
	}
	return stats.EffectNone
}

func orNone(text string) string {
	if text == "" {
		return "none"
	}
	return text
}

// digest is as much of a checksum as tells it from the other.
func digest(sum, other string) string {
	const usual = 8
	if len(sum) > usual && len(other) > usual && sum[:usual] != other[:usual] {
		return sum[:usual]
	}
	return sum
}
