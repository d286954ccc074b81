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

// sharing lists the keys that control how nodes share. They are SAPO's own settings, and always under study.
var sharing = []string{
	"num_train_samples", "num_transplant_trees", "zero_advantage_filter", "external_sampling", "external_advantage", "external_correction",
	"external_divergence", "external_filter", "external_filter_threshold", "external_lag", "split", "split_alpha", "split_ema", "split_every",
}

// Subjects of several keys, as accepted by `--despite`.
const (
	subjectTasks  = "tasks"  // tasks.mixture, tasks.file, tasks.words and the contents of these files
	subjectModel  = "model"  // with its weights, and the keys that equal the model's preset
	subjectModels = "models" // with members.*
)

// facts are the settings of a run that are not keys of its configuration.
var facts = []string{"nodes", "gpu", "weights", "swarm", "torch"}

// SettingNames lists the settings that a comparison can be told to ignore: the configuration's keys, the facts of a
// run, and the subjects of several keys.
func SettingNames() []string {
	names := slices.Concat(configs.Keys(), facts, []string{subjectTasks})
	names = slices.DeleteFunc(names, func(name string) bool { return slices.Contains(unlisted, name) })
	slices.Sort(names)
	return slices.Compact(names)
}

// unlisted are keys that do not count as settings: rows are named after the experiment, and the runs of a row differ in
// the seed.
var unlisted = []string{"experiment", "seed"}

// CheckDespite rejects names that are not settings. The error is a *configs.Error.
func CheckDespite(names []string) error {
	known := SettingNames()
	for _, name := range names {
		if slices.Contains(known, name) {
			continue
		}
		remedy := "not a setting; allowed: the configuration's keys, nodes, gpu, weights, swarm, torch and tasks"
		if near := units.Nearest(name, known); near != "" {
			remedy = fmt.Sprintf("did you mean %q?", near)
		}
		return &configs.Error{Key: "despite", Value: name, Remedy: remedy}
	}
	return nil
}

// Differ returns a function for stats.CompareOptions that lists the settings in which two runs differ, by name. The
// function caches the settings of runs by key.
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

// settings holds the settings of a run.
type settings struct {
	config   configs.Config
	ours     bool   // the configuration is in this program's format; else only the run's own row is used
	text     string // of config
	defaults map[string]any
	facts    map[string]string
	inputs   map[string]string // contents of the files that it read, by name
}

func newSettings(r store.Totals) *settings {
	s := &settings{facts: map[string]string{}}
	// A file's folder has no effect and is unknown for imported runs.
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

// addFacts adds facts from the run's row, plan and versions.
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
	_ = json.Unmarshal(r.Plan, &plan) // fails for other trainers, other programs and imports, whose facts are then unknown
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

// defaultsOf returns the values of a model's preset for its experiments, by key, with the program's defaults for other
// keys.
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
			continue // a value that is unknown on one side does not count as different
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

// configDifferences lists the differences between the configurations. Keys that equal the model's preset on both sides
// belong to the subject of the model.
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

// effect returns the effect of a difference in a key on a comparison, as in the table in docs/METRICS.md.
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

// questions reports whether a key affects the questions.
func questions(key string) bool {
	return key == "tasks.file" || key == "tasks.words" || key == configs.NodeTasksKey || key == configs.MixtureKey || strings.HasPrefix(key, configs.MixtureKey+".")
}

// factEffect returns the effect of a difference in a fact. fp32 and tf32 learn alike; 16-bit precision may not.
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

// digest shortens a checksum, as far as it stays distinct from the other.
func digest(sum, other string) string {
	const usual = 8
	if len(sum) > usual && len(other) > usual && sum[:usual] != other[:usual] {
		return sum[:usual]
	}
	return sum
}
