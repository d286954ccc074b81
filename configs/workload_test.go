package configs

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestBuiltInWorkloads(t *testing.T) {
	require.Equal(t, []string{"lora-classifier", "naics-embedder", "rl-swarm", "sapo", "verl-grpo"}, Workloads())
	for _, name := range Workloads() {
		w, err := LoadWorkload(name)
		require.NoError(t, err)
		require.Equal(t, name, w.Name)
		require.NotEmpty(t, w.About)
		require.Contains(t, w.Source, "guide")
		require.NotEmpty(t, w.Ladder)
		for _, s := range w.Ladder {
			require.NotEmpty(t, s.Why, s.Title)
			require.NotEmpty(t, s.TradeOff, s.Title)
			require.NotEmpty(t, s.Expected, s.Title)
		}
		for _, v := range w.Values {
			require.NotEmpty(t, v.Places, "%s: %s", name, v.Name)
		}
	}
	_, err := LoadWorkload("naics")
	require.EqualError(t, err, `unknown workload "naics": allowed: lora-classifier, naics-embedder, rl-swarm, sapo, verl-grpo, or your own YAML file`)
}

// The profile of swarm's own nodes uses keys of the configuration.
func TestSAPOProfileHasOurKeys(t *testing.T) {
	w, err := LoadWorkload("sapo")
	require.NoError(t, err)
	for _, v := range w.Values {
		key, err := FindKey(v.Name)
		require.NoError(t, err)
		require.Equal(t, []string{"swarm.yaml:" + key.Name}, v.Places)
		_, err = key.Parse(v.Start)
		require.NoError(t, err)
	}
}

// least is the shortest valid profile.
const least = "name: mine\nvalues:\n  - {name: batch_size, role: batch, start: 8}\n"

func TestLeastProfile(t *testing.T) {
	w, err := ParseWorkload("mine.yaml", []byte(least))
	require.NoError(t, err)
	require.Equal(t, "mine", w.Name)
	require.InDelta(t, 0.85, w.SafetyMargin, 0)
	require.Equal(t, "GB", w.Unit)
	batch, found := w.ByRole(RoleBatch)
	require.True(t, found)
	require.Equal(t, "8", batch.Start)
}

// Every mistake is one line with the file's line, the key, and the allowed values.
func TestBadProfiles(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"nothing", "", `profile is empty (p.yaml): docs/TUNE.md has an example of ten lines`},
		{"only a comment", "# nothing\n", `profile is empty (p.yaml): docs/TUNE.md has an example of ten lines`},
		{"a list", "- a\n", `bad  "[…]" (p.yaml:1): allowed: key: value lines`},
		{"no YAML", "a: [\n", `profile is not YAML (p.yaml:1): did not find expected node content`},
		{"two documents", least + "---\nname: b\n", `profile has more than one YAML document (p.yaml): keep the first`},
		{"no text", "\xff\xfe", `profile is not text (p.yaml): allowed: UTF-8`},
		{"too large", strings.Repeat("#", maxProfile+1), `profile is too large (p.yaml): allowed: at most 262144 bytes`},
		{"an unknown key", least + "memry: []\n", `unknown key "memry" (p.yaml:4): did you mean "memory"?`},
		{"a key twice", least + "name: b\n", `key "name" is given twice (p.yaml:4): keep one`},
		{"no name", strings.Replace(least, "mine", `" "`, 1), `bad name " " (p.yaml:1): allowed: a text of 1 to 1000 characters`},
		{"a bad name", strings.Replace(least, "mine", "../x", 1), `bad name "../x" (p.yaml:1): allowed: 1 to 64 letters, digits, dots, - and _`},
		{"an alias", least + "about: &a x\nsource: *a\n", `bad source "*a" (p.yaml:5): allowed: a text of 1 to 1000 characters`},
		{"no batch", "name: a\nvalues: []\n", `bad values "0 with role batch, 0 with role accumulate" (p.yaml:2): allowed: one value with role batch, and at most one with role accumulate`},
		{"a batch that is no number", strings.Replace(least, "start: 8", "start: many", 1),
			`bad values.1.start "many" (p.yaml:3): allowed: a whole number from 1 to 65536, for a batch`},
		{"an unknown role", strings.Replace(least, "role: batch", "role: size", 1), `bad values.1.role "size" (p.yaml:3): allowed: batch or accumulate`},
		{"a value's bad name", least + "  - {name: a-b}\n", `bad values.2.name "a-b" (p.yaml:4): allowed: a letter followed by letters, digits and _, at most 64 characters`},
		{"a value twice", least + "  - {name: batch_size}\n",
			`bad values.2.name "batch_size" (p.yaml:4): allowed: a unique name other than gpu_memory and gpus`},
		{"limits the wrong way", strings.Replace(least, "start: 8", "start: 8, min: 9, max: 4", 1), `bad values.1.max "4" (p.yaml:3): allowed: a number from min, 9`},
		{"a place outside", strings.Replace(least, "start: 8", `start: 8, place: "../x.yaml:a"`, 1),
			`bad values.1.place "../x.yaml:a" (p.yaml:3): allowed: FILE:KEY with a file in the training's folder, such as conf/config.yaml:train.batch_size`},
		{"a place elsewhere", strings.Replace(least, "start: 8", `start: 8, place: "/etc/x.yaml:a"`, 1),
			`bad values.1.place "/etc/x.yaml:a" (p.yaml:3): allowed: FILE:KEY with a file in the training's folder, such as conf/config.yaml:train.batch_size`},
		{"a formula with a name that isn't there", least + "memory:\n  - {name: a, bytes: 1GB * batch}\n",
			`bad memory.1.bytes "1GB * batch" (p.yaml:5): allowed: names of values whose start is a number, gpu_memory and gpus; "batch" is none`},
		{"a formula cut off", least + "memory:\n  - {name: a, bytes: 1GB *}\n",
			`bad memory.1.bytes "1GB *" (p.yaml:5): allowed: a formula of numbers, units, value names, + - * / and parentheses; the formula ends, but a number, a name or a parenthesis was expected`},
		{"a margin above 1", least + "safety_margin: 85\n", `bad safety_margin "85" (p.yaml:4): allowed: a number from 0.05 to 1`},
		{"a target without accumulation", least + "target_effective_batch: 64\n",
			`bad target_effective_batch "64" (p.yaml:4): allowed: none, because no value has role accumulate`},
		{"a row without a batch", least + "known:\n  - {gpu_memory: 24GB, values: {batch: 4}}\n", `bad known.1.values.batch "4" (p.yaml:5): allowed: values of this profile`},
		{"a row of no size", least + "known:\n  - {gpu_memory: 24, values: {batch_size: 4}}\n", `bad known.1.gpu_memory "24" (p.yaml:5): allowed: a size such as 24GiB or 40GB`},
		{"a step to nowhere", least + "ladder:\n  - {title: a, edits: {batch_size: /0}}\n", `bad ladder.1.edits.batch_size "/0" (p.yaml:5): allowed: a text, or /2, x2, <=512 or >=8`},
		{"a step of another's value", least + "ladder:\n  - {title: a, edits: {size: 4}}\n", `bad ladder.1.edits.size "4" (p.yaml:5): allowed: values of this profile`},
		{"a stage that isn't there", least + "ladder:\n  - {title: a, stage: b, edits: {batch_size: 4}}\n", `bad ladder.1.stage "b" (p.yaml:5): allowed: the name of a stage`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := ParseWorkload("p.yaml", []byte(tt.text))
			require.EqualError(t, err, tt.want)
			var e *Error
			require.ErrorAs(t, err, &e, "exit code 2")
		})
	}
}

func TestFormulas(t *testing.T) {
	values := map[string]float64{"a": 6, "b": 4, "gpu_memory": 24e9}
	for text, want := range map[string]float64{
		"1": 1, "1.5GB": 1.5e9, "2 MiB": math.NaN(), "512MiB": 512 << 20, "1e3": 1000, "1e+3": 1000, "2e-1": 0.2, ".5": 0.5, "24GiB": 24 << 30, "3B": 3,
		"a + b * 2": 14, "(a + b) * 2": 20, "a - b - 1": 1, "a / b / 2": 0.75, "-a + b": -2, "--a": 6, "2*-b": -8, "((a))": 6, "a*b": 24,
		"0.85 * gpu_memory - 2GB": 18.4e9, " a ": 6,
	} {
		f, err := ParseFormula(text)
		if math.IsNaN(want) {
			require.Error(t, err, text)
			continue
		}
		require.NoError(t, err, text)
		got, err := f.Eval(values)
		require.NoError(t, err, text)
		require.InDelta(t, want, got, 1e-6*math.Abs(want), text)
	}
	for text, want := range map[string]string{
		"": "ends, but a number", "a b": `an operator was expected at character 3, before "b"`, "(a": "a closing parenthesis", "a)": "an operator",
		"2 ** 3": "a number, a name", "os.system(1)": "an operator", "0x10": "is not a number", "1_000": "is not a number", "inf": "",
		"1GBB": "is not a number", "1e999": "is not a number", strings.Repeat("(", 40) + "1" + strings.Repeat(")", 40): "more than 32 nested parentheses",
		strings.Repeat("-", 100) + "1": "more than 32", strings.Repeat("1+", 300) + "1": "at most 500 characters", "a;b": "an operator", "a\x00": "an operator",
	} {
		f, err := ParseFormula(text)
		if err == nil {
			_, err = f.Eval(values) // inf is a name like any other
		}
		require.ErrorContains(t, err, want, text)
	}
	for text, want := range map[string]string{"1 / (a - 6)": "division by zero", "c": "c has no value", "1e308 * 10": "not a finite number"} {
		f, err := ParseFormula(text)
		require.NoError(t, err)
		_, err = f.Eval(values)
		require.ErrorContains(t, err, want)
	}
}

// A formula evaluates as in Go: the test draws an expression with its value.
func TestFormulaValues(t *testing.T) {
	var draw func(t *rapid.T, depth int) (string, float64)
	draw = func(t *rapid.T, depth int) (string, float64) {
		if depth == 0 || rapid.IntRange(0, 3).Draw(t, "leaf") == 0 {
			n := rapid.IntRange(1, 1000).Draw(t, "number")
			return rapid.SampledFrom([]string{"", " "}).Draw(t, "space") + strconv.Itoa(n), float64(n)
		}
		left, x := draw(t, depth-1)
		right, y := draw(t, depth-1)
		switch rapid.SampledFrom([]string{"+", "-", "*"}).Draw(t, "operator") {
		case "+":
			return "(" + left + "+" + right + ")", x + y
		case "-":
			return "(" + left + " - " + right + ")", x - y
		}
		return "(" + left + " *" + right + ")", x * y
	}
	rapid.Check(t, func(t *rapid.T) {
		text, want := draw(t, 4)
		f, err := ParseFormula(text)
		require.NoError(t, err)
		got, err := f.Eval(nil)
		require.NoError(t, err)
		require.InDelta(t, want, got, 1e-9*(1+math.Abs(want)))
	})
}

// FuzzWorkload: any bytes give a profile or a one-line *Error, and all parts of an accepted profile can be used.
func FuzzWorkload(f *testing.F) {
	files, err := filepath.Glob("workloads/*.yaml")
	if err != nil || len(files) == 0 {
		f.Fatal("no profiles", err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte(least))
	f.Add([]byte("name: &a [*a]\n"))
	f.Add([]byte("values:\n- {name: b, role: batch, start: 1e9}\nknown: [{gpu_memory: 1e99GB}]\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		w, err := ParseWorkload("p.yaml", data)
		if err != nil {
			var e *Error
			if !errors.As(err, &e) || strings.Contains(err.Error(), "\n") {
				t.Fatalf("not one line for the user: %q", err)
			}
			return
		}
		batch, found := w.ByRole(RoleBatch)
		start, numeric := Number(batch.Start)
		if !found || !numeric || start < 1 || len(w.Values) > maxItems || w.SafetyMargin <= 0 || w.SafetyMargin > 1 {
			t.Fatalf("taken, but not usable: %+v", w)
		}
		values := map[string]float64{NameGPUMemory: 24e9, NameGPUs: 1}
		for _, v := range w.Values {
			values[v.Name] = 1
		}
		for _, m := range w.Memory {
			if n, err := m.Bytes.Eval(values); err == nil && (math.IsNaN(n) || math.IsInf(n, 0)) {
				t.Fatalf("%s is %g", m.Bytes, n)
			}
		}
	})
}
