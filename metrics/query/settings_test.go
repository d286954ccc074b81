package query_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/metrics/query"
	"github.com/sapo-swarm/swarm/metrics/stats"
	"github.com/sapo-swarm/swarm/metrics/store"
	"github.com/sapo-swarm/swarm/metrics/wording"
)

// recorded returns a finished run of a configuration.
func recorded(t *testing.T, name string, c configs.Config) store.Totals {
	t.Helper()
	text, err := json.Marshal(c)
	require.NoError(t, err)
	return store.Totals{
		Run: store.Run{Run: name, Experiment: name, State: store.RunDone, Seed: c.Seed, Preset: c.Preset, Model: c.Model, Device: "cpu", Nodes: 4,
			NumTrainSamples: c.NumTrainSamples, NumTransplantTrees: c.NumTransplantTrees, NumGenerations: c.NumGenerations, Rounds: c.Rounds,
			Config:   text,
			Plan:     json.RawMessage(`{"share": "lease", "gpus": [{"index": 0, "name": "H200"}], "placement": [{"node": "node_0", "gpu": 0}]}`),
			Versions: json.RawMessage(`{"swarm": "a", "torch": "2.7", "inputs": {"model": "0123456789"}}`)},
		NodesSeen: 4, NodeRounds: 40, RoundsDone: 10, RoundsReached: 10, CumulativeReward: 4,
	}
}

func pairOf(t *testing.T, a, b store.Totals, o stats.CompareOptions) stats.Pair {
	t.Helper()
	a.Run.Run, a.Experiment, b.Run.Run, b.Experiment = "a", "a", "b", "b"
	o.Baseline, o.Differ = "b", query.Differ()
	c, err := stats.Compare(stats.Runs{Totals: []store.Totals{a, b}}, o)
	require.NoError(t, err)
	wording.Comparison(&c)
	require.Len(t, c.Pairs, 1)
	var row []stats.RowDifference
	for _, d := range c.Pairs[0].Differs {
		row = append(row, stats.RowDifference{Key: d.Key, Baseline: d.B, Value: d.A, Role: d.Role})
	}
	require.ElementsMatch(t, row, c.Rows[0].Differs, "the row tells the same")
	return c.Pairs[0]
}

func keysOf(p stats.Pair) (keys []string) {
	for _, d := range p.Differs {
		keys = append(keys, d.Key)
	}
	return keys
}

func nanoConfig() configs.Config {
	c := configs.Default()
	c.Model, c.Tasks.Set = "nano", "nano"
	c.Tasks.Mixture = []configs.TaskSpec{{Name: "bf", Weight: 1, Params: map[string]any{"difficulty": 1}}}
	return c
}

// sapoKeys are the keys that control how nodes share. They are always under study.
var sapoKeys = []string{
	"num_train_samples", "num_transplant_trees", "zero_advantage_filter", "external_sampling", "external_advantage", "external_correction",
	"external_divergence", "external_filter", "external_filter_threshold", "external_lag", "split", "split_alpha", "split_ema", "split_every",
}

// The document lists every setting in which two runs differ: each key of the configuration is changed alone.
func TestEverySettingThatDiffersIsListed(t *testing.T) {
	base := nanoConfig()
	changed := 0
	var walk func(at []int, typ reflect.Type, prefix string)
	walk = func(at []int, typ reflect.Type, prefix string) {
		for i := range typ.NumField() {
			name, index := prefix+typ.Field(i).Tag.Get("mapstructure"), append(slices.Clone(at), i)
			if typ.Field(i).Type.Kind() == reflect.Struct {
				walk(index, typ.Field(i).Type, name+".")
				continue
			}
			if typ.Field(i).Type.Kind() == reflect.Slice {
				continue // tested below
			}
			changed++
			after := nanoConfig()
			field := reflect.ValueOf(&after).Elem().FieldByIndex(index)
			switch field.Kind() {
			case reflect.String:
				field.SetString(field.String() + "x")
			case reflect.Bool:
				field.SetBool(!field.Bool())
			case reflect.Float64:
				field.SetFloat(field.Float() + 1)
			default:
				field.SetInt(field.Int() + 1)
			}
			p := pairOf(t, recorded(t, "a", base), recorded(t, "b", after), stats.CompareOptions{})
			if name == "experiment" || name == "seed" {
				require.Empty(t, p.Differs, "rows are named after the one and are means over the other")
				continue
			}
			require.Equal(t, []string{name}, keysOf(p))
			require.NotEqual(t, p.Differs[0].A, p.Differs[0].B)
			if name == "tasks.file" || name == "tasks.words" || name == configs.NodeTasksKey {
				require.Equal(t, stats.OutcomeNotComparable, p.Outcome, name)
			} else {
				require.NotEqual(t, stats.OutcomeNotComparable, p.Outcome, "%s alone is what is compared", name)
			}
			shared := recorded(t, "b", after)
			shared.NumTransplantTrees = base.NumTransplantTrees + 4
			var c configs.Config
			require.NoError(t, json.Unmarshal(shared.Config, &c))
			c.NumTransplantTrees = shared.NumTransplantTrees
			shared.Config, _ = json.Marshal(c)
			p = pairOf(t, recorded(t, "a", base), shared, stats.CompareOptions{})
			blocks := configs.ClassOf(name) == configs.ClassExperiment && !slices.Contains(sapoKeys, name) || name == "precision"
			require.Equal(t, blocks, p.Outcome == stats.OutcomeNotComparable, "%s beside I/J: %s", name, p.Verdict)
			if blocks {
				require.Contains(t, p.Verdict, name)
				p = pairOf(t, recorded(t, "a", base), shared, stats.CompareOptions{Despite: []string{name}})
				require.NotEqual(t, stats.OutcomeNotComparable, p.Outcome)
				require.Equal(t, stats.RoleDespite, role(p, name))
			}
		}
	}
	walk(nil, reflect.TypeFor[configs.Config](), "")
	require.GreaterOrEqual(t, changed, len(configs.AllKeys())-1)

	harder := nanoConfig()
	harder.Tasks.Mixture[0].Params["difficulty"] = 2
	p := pairOf(t, recorded(t, "a", base), recorded(t, "b", harder), stats.CompareOptions{})
	require.Equal(t, []string{"tasks.mixture.bf.params.difficulty"}, keysOf(p))
	require.Equal(t, "not comparable: tasks.mixture.bf.params.difficulty 1 against 2", p.Verdict, "rewards of other questions are other rewards")
	p = pairOf(t, recorded(t, "a", base), recorded(t, "b", harder), stats.CompareOptions{Despite: []string{"tasks"}})
	require.NotEqual(t, stats.OutcomeNotComparable, p.Outcome)
}

func role(p stats.Pair, key string) string {
	for _, d := range p.Differs {
		if d.Key == key {
			return d.Role
		}
	}
	return ""
}

// Facts of a run that are not part of its configuration are also listed.
func TestEveryFactThatDiffersIsListed(t *testing.T) {
	for key, x := range map[string]struct {
		change func(*store.Totals)
		role   string // role if I/J differs as well
		a, b   string
	}{
		"nodes":   {func(r *store.Totals) { r.NodesSeen = 8 }, stats.RoleConfounder, "4", "8"},
		"device":  {func(r *store.Totals) { r.Device = "cuda:0" }, stats.RoleOther, "cpu", "cuda"},
		"share":   {func(r *store.Totals) { r.Plan = json.RawMessage(strings.Replace(string(r.Plan), "lease", "mps", 1)) }, stats.RoleOther, "lease", "mps"},
		"gpu":     {func(r *store.Totals) { r.Plan = json.RawMessage(strings.Replace(string(r.Plan), "H200", "T4", 1)) }, stats.RoleOther, "H200", "T4"},
		"swarm":   {func(r *store.Totals) { r.Versions = json.RawMessage(`{"swarm": "b"}`) }, stats.RoleOther, "a", "b"},
		"torch":   {func(r *store.Totals) { r.Versions = json.RawMessage(`{"torch": "1.13"}`) }, stats.RoleOther, "2.7", "1.13"},
		"weights": {func(r *store.Totals) { r.Versions = json.RawMessage(`{"inputs": {"model": "abcdefghij"}}`) }, stats.RoleConfounder, "01234567", "abcdefgh"},
	} {
		t.Run(key, func(t *testing.T) {
			other := nanoConfig()
			other.NumTransplantTrees = 4
			b := recorded(t, "b", other)
			x.change(&b)
			p := pairOf(t, recorded(t, "a", nanoConfig()), b, stats.CompareOptions{})
			i := slices.IndexFunc(p.Differs, func(d stats.SettingDifference) bool { return d.Key == key })
			require.GreaterOrEqual(t, i, 0, "%v", p.Differs)
			require.Equal(t, []string{x.a, x.b, x.role}, []string{p.Differs[i].A, p.Differs[i].B, p.Differs[i].Role})
		})
	}
	half := nanoConfig()
	half.NumTransplantTrees, half.Precision = 4, "bf16"
	p := pairOf(t, recorded(t, "a", nanoConfig()), recorded(t, "b", half), stats.CompareOptions{})
	require.Equal(t, "not comparable: precision fp32 against bf16", p.Verdict)
	half.Precision = "tf32"
	p = pairOf(t, recorded(t, "a", nanoConfig()), recorded(t, "b", half), stats.CompareOptions{})
	require.Equal(t, stats.RoleOther, role(p, "precision"))
}

// Keys that a model's preset sets belong to the model: they are one difference.
func TestAModelsOwnDefaultsAreNoFurtherDifference(t *testing.T) {
	of := func(model string) configs.Config {
		c := nanoConfig()
		m, err := configs.LoadModel(model)
		require.NoError(t, err)
		c.Model = model
		values, err := configs.PresetValues(m.Defaults)
		require.NoError(t, err)
		c.LearningRate = values["learning_rate"].(float64)
		c.MaxPromptLength = values["max_prompt_length"].(int)
		return c
	}
	p := pairOf(t, recorded(t, "a", of("nano")), recorded(t, "b", of("gpt2")), stats.CompareOptions{})
	require.NotEqual(t, stats.OutcomeNotComparable, p.Outcome, "%v", p.Differs)
	require.Equal(t, []string{stats.RoleStudy, stats.RoleStudy}, []string{role(p, "model"), role(p, "learning_rate")})
	other := of("gpt2")
	other.LearningRate *= 3
	p = pairOf(t, recorded(t, "a", of("nano")), recorded(t, "b", other), stats.CompareOptions{})
	require.Equal(t, stats.OutcomeNotComparable, p.Outcome)
	require.Equal(t, stats.RoleConfounder, role(p, "learning_rate"))
}

// A study's arms may differ only in the settings that it compares.
func TestAStudyDeclaresWhatItCompares(t *testing.T) {
	design := &stats.StudyDesign{Name: "s", Baseline: "one", Keys: []string{"learning_rate", "beta"},
		Arms: []stats.StudyArm{{Name: "one", Experiment: "one"}, {Name: "two", Experiment: "two"}}}
	compare := func(change func(*configs.Config)) stats.Pair {
		var runs stats.Runs
		runs.Evals = map[string]store.EvalTotal{}
		for i, name := range []string{"one", "two"} {
			for seed := range 4 {
				c := nanoConfig()
				if name == "two" {
					c.LearningRate, c.Beta = 0.5, 0.1
					change(&c)
				}
				r := recorded(t, name, c)
				r.Run.Run, r.Seed = fmt.Sprint(name, seed), int64(seed)
				runs.Totals = append(runs.Totals, r)
				runs.Evals[r.Run.Run] = store.EvalTotal{Run: r.Run.Run, Set: "s", Round: 10, Generations: 1, Questions: 1000, Correct: 100 + 100*i + seed}
			}
		}
		c, err := stats.Compare(runs, stats.CompareOptions{Study: design, Differ: query.Differ()})
		require.NoError(t, err)
		require.Len(t, c.Pairs, 1)
		return c.Pairs[0]
	}
	require.Equal(t, stats.OutcomeBetter, compare(func(*configs.Config) {}).Outcome)
	require.Equal(t, stats.OutcomeBetter, compare(func(c *configs.Config) { c.CheckpointEvery++ }).Outcome)
	require.Equal(t, stats.OutcomeNotComparable, compare(func(c *configs.Config) { c.TopK = 5 }).Outcome)
}

func TestSettingNamesAreWhatCanBeOverlooked(t *testing.T) {
	names := query.SettingNames()
	for _, want := range []string{"nodes", "model", "models", "tasks", "weights", "swarm", "torch", "gpu", "precision", "share", "learning_rate"} {
		require.Contains(t, names, want)
	}
	require.NotContains(t, names, "seed")
}
