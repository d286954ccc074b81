package configs

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func grid(t require.TestingT, texts ...string) (g Grid) {
	for _, text := range texts {
		axis, err := ParseAxis(text)
		require.NoError(t, err)
		g = append(g, axis)
	}
	require.NoError(t, g.Check(1))
	return g
}

// An unknown key of a study's file is told like one of a configuration file.
func TestUnknownKeyOfAStudyFile(t *testing.T) {
	_, err := ParseStudyFile("folder/mine.yaml", []byte("question: why?\nbaselin: a\n"))
	require.EqualError(t, err, `unknown key "baselin" (folder/mine.yaml:2): did you mean "baseline"?`)
	_, err = ParseStudyFile("folder/mine.yaml", nil)
	require.EqualError(t, err, `bad study "mine" (folder/mine.yaml): the file is empty`)
}

func TestAGridIsEveryCombinationOfItsValues(t *testing.T) {
	arms := grid(t, "learning_rate=1e-4, 0.0003", "num_generations=4,8").Arms()
	var names []string
	for _, arm := range arms {
		names = append(names, arm.Name("4loc4ext", longestName))
	}
	require.Equal(t, []string{"4loc4ext-lr1e-4-G4", "4loc4ext-lr1e-4-G8", "4loc4ext-lr3e-4-G4", "4loc4ext-lr3e-4-G8"}, names)
	require.Equal(t, map[string]any{"learning_rate": 3e-4, "num_generations": 4}, arms[2].Values)
	require.Equal(t, []GridArm{{Values: map[string]any{}}}, Grid(nil).Arms())
}

func TestArmsAreNamedByTheirValues(t *testing.T) {
	for text, want := range map[string]string{
		"learning_rate=0.00025": "x-lr2.5e-4", "learning_rate=0.001": "x-lr0.001", "temperature=0.9": "x-temperature0.9", "beta=0": "x-beta0",
		"num_train_samples=4": "x-I4", "num_transplant_trees=12": "x-J12", "zero_advantage_filter=false": "x-zero_advantage_filter-false",
		"tasks.system_prompt=none": "x-system_prompt-none", "max_grad_norm=1000000": "x-max_grad_norm1e6",
		"model=openai-community/gpt2": "x-model-openai-community-gpt2-" + shortHash("openai-community/gpt2"),
	} {
		name := grid(t, text).Arms()[0].Name("x", longestName)
		require.Equal(t, want, name)
		require.Regexp(t, experimentName, name)
	}
	long := grid(t, "external_correction=importance", "external_advantage=positive", "zero_advantage_filter=false").Arms()[0].Name("4loc4ext", longestName)
	require.Len(t, long, longestName)
	require.Regexp(t, experimentName, long)
}

// Each arm of a grid has a unique name, independent of the grid's other values.
func TestEveryArmHasANameOfItsOwn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var g Grid
		if n := rapid.IntRange(0, 4).Draw(t, "rates"); n > 0 {
			g = append(g, Axis{"learning_rate", anyOf(rapid.SliceOfNDistinct(rapid.Float64Range(0, 1), n, n, rapid.ID).Draw(t, "rate"))})
		}
		if n := rapid.IntRange(0, 3).Draw(t, "words"); n > 0 {
			words := rapid.StringMatching(`[a-zA-Z0-9/ =._é-]{1,40}`)
			g = append(g, Axis{"model", anyOf(rapid.SliceOfNDistinct(words, n, n, rapid.ID).Draw(t, "model"))})
		}
		if rapid.Bool().Draw(t, "filter") {
			g = append(g, Axis{"zero_advantage_filter", []any{true, false}})
		}
		base := rapid.StringMatching(`[a-z][a-z0-9-]{0,50}`).Draw(t, "base")
		seen := map[string]bool{}
		for _, arm := range g.Arms() {
			name := arm.Name(base, longestName)
			require.Regexp(t, experimentName, name)
			require.False(t, seen[name], "%s is two arms", name)
			seen[name] = true
			var alone Grid
			for _, axis := range g {
				alone = append(alone, Axis{axis.Key, []any{arm.Values[axis.Key]}})
			}
			require.Equal(t, name, alone.Arms()[0].Name(base, longestName))
		}
	})
}

func anyOf[T any](list []T) (out []any) {
	for _, v := range list {
		out = append(out, v)
	}
	return out
}

func TestABadGridIsRefused(t *testing.T) {
	for text, want := range map[string]string{
		"learning_rate":                  "allowed: KEY=VALUE,VALUE such as learning_rate=1e-4,3e-4",
		"learning_rat=1":                 `did you mean "learning_rate"?`,
		"learning_rate=":                 `bad learning_rate ""`,
		"learning_rate=1e-4,":            `bad learning_rate ""`,
		"learning_rate=1e-4,fast":        `bad learning_rate "fast"`,
		"num_generations=4,4.5":          `bad num_generations "4.5"`,
		"learning_rate=1e-4,0.0001,1e-3": `value "0.0001" of learning_rate is given twice`,
		"seed=1,2":                       "key seed cannot have several values: use --seeds",
		"rounds=10,20":                   "runs of different length are not comparable",
		"experiment=a,b":                 "arms are named after their values",
		"tasks.mixture=bf":               "a list of tasks in a YAML file",
		"top_k=" + strings.Repeat("1,", MaxArms) + "1": "at most 64",
	} {
		_, err := ParseAxis(text)
		var mistake *Error
		require.ErrorAs(t, err, &mistake, text)
		require.ErrorContains(t, err, want, text)
	}
	rate, err := ParseAxis("learning_rate=1e-4,3e-4")
	require.NoError(t, err)
	require.ErrorContains(t, Grid{rate, rate}.Check(1), "key learning_rate is given twice")
	require.NoError(t, Grid{rate}.Check(MaxArms/2))
	require.ErrorContains(t, Grid{rate}.Check(MaxArms/2+1), "more than 64 arms")
}

func TestAStudysGridMakesItsExperiments(t *testing.T) {
	text := strings.Replace(goodStudy, "baseline: a\n", "", 1)
	text = strings.Replace(text, ", learning_rate_factor: 2", "", 1) + "grid: {learning_rate: [1e-4, 3e-4], temperature: [1, 0.9]}\n"
	s, err := ParseStudyFile("folder/my study.yaml", []byte(text))
	require.NoError(t, err)
	require.Equal(t, []string{"my-study", "folder/my study.yaml", "a-lr1e-4-temperature1"}, []string{s.Name, s.Named(), s.Baseline})
	require.Len(t, s.Experiments, 12)
	b := s.Experiments[6]
	require.Equal(t, "b-lr3e-4-temperature1", b.Name)
	require.Equal(t, map[string]any{"learning_rate": 3e-4, "temperature": 1.0, "tasks.system_prompt": "none"}, b.Set)
	require.Equal(t, 4, b.Nodes)
	nano, err := LoadModel(NanoModel)
	require.NoError(t, err)
	settings, err := s.Settings("", nano)
	require.NoError(t, err)
	require.Equal(t, "my-study-b-lr3e-4-temperature1", settings[6]["experiment"])

	for change, want := range map[string]string{
		"temperature: [1, 0.9] => temprature: [1]":                                  `did you mean "temperature"?`,
		"temperature: [1, 0.9] => temperature: 1":                                   `a list of values for "temperature"`,
		"temperature: [1, 0.9] => temperature: []":                                  `a list of values for "temperature"`,
		"temperature: [1, 0.9] => temperature: [[1]]":                               "a number, text, true or false",
		"temperature: [1, 0.9] => temperature: [1, warm]":                           `bad temperature "warm"`,
		"temperature: [1, 0.9] => model: [nano, gpt2]":                              `bad grid "model"`,
		"temperature: [1, 0.9] => tasks.system_prompt: [none]":                      "this key either in set or in the grid",
		"temperature: [1, 0.9] => top_k: [" + strings.Repeat("1, ", MaxArms) + "2]": "at most 64",
		"{learning_rate: [1e-4, 3e-4], => {":                                        "", // one key alone is a grid, too
	} {
		before, after, _ := strings.Cut(change, " => ")
		require.Contains(t, text, before)
		_, err := ParseStudyFile("mine.yaml", []byte(strings.Replace(text, before, after, 1)))
		if want == "" {
			require.NoError(t, err, change)
			continue
		}
		var mistake *Error
		require.ErrorAs(t, err, &mistake, change)
		require.ErrorContains(t, err, want, change)
		require.ErrorContains(t, err, "mine.yaml", change)
	}
	for path, want := range map[string]string{
		"paper.yaml": "study paper is part of the program", ".yaml": "a file name of 1 to 24 characters", strings.Repeat("x", 25) + ".yaml": "1 to 24",
	} {
		_, err := ParseStudyFile(path, []byte(text))
		require.ErrorContains(t, err, want)
	}
	var many strings.Builder
	for i := range MaxArms + 1 {
		fmt.Fprintf(&many, "  - {name: e%d, config: 8loc0ext, set: {top_k: %d}}\n", i, i)
	}
	_, err = ParseStudyFile("mine.yaml", []byte("question: why?\nbaseline: e0\nmeasure: pass\nseeds: 3\nrounds: 10\nexperiments:\n"+many.String()))
	require.ErrorContains(t, err, "at most 64")
}

// The example files are valid.
func TestTheExamplesAreStudies(t *testing.T) {
	files, err := filepath.Glob("../examples/*.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		require.True(t, IsStudy(text), file)
		s, err := ParseStudyFile(file, text)
		require.NoError(t, err, file)
		nano, err := LoadModel(NanoModel)
		require.NoError(t, err)
		settings, err := s.Settings("", nano)
		require.NoError(t, err, file)
		require.NotEmpty(t, Compared(settings), "%s compares nothing", file)
	}
	require.False(t, IsStudy([]byte("rounds: 3\n")))
	require.False(t, IsStudy([]byte("- grid\n")))
}
