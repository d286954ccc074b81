package task

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func specOf(name string, params map[string]any) Spec {
	return Spec{Name: name, Weight: 1, Params: params}
}

func mustSet(t testing.TB, specs ...Spec) *Set {
	t.Helper()
	set, err := NewSet(specs)
	require.NoError(t, err)
	return set
}

// tinySpecs have so few different items that training and held-out draws would overlap without the split.
func tinySpecs() []Spec {
	return []Spec{
		specOf("arc_1d", map[string]any{"min_size": 8, "max_size": 8, "num_train": 1}),
		specOf("basic_arithmetic", map[string]any{"max_terms": 2, "max_digits": 1, "whitespace": "random"}),
		specOf("base_conversion", map[string]any{"max_base": 4, "max_value": 20}),
		specOf("bf", nil),
		specOf("binary_matrix", map[string]any{"max_n": 3}),
		specOf("calendar_arithmetic", map[string]any{"leap_year_range": 60, "offset_upper_bound": 5, "tasks": []any{
			"weekday_offset", "weekday_of_date", "weekday_of_date_from_first_date", "recurring_event_day", "count_days",
			"count_business_days", "is_leap_year",
		}}),
		specOf("decimal_arithmetic", map[string]any{"max_num_decimal_places": 1, "max_terms": 2}),
		specOf("fraction_simplification", map[string]any{"max_value": 12, "max_factor": 5}),
		specOf("propositional_logic", map[string]any{"max_vars": 3, "max_statements": 2, "max_complexity": 2}),
	}
}

func TestHeldOutItemsAreNeverDrawn(t *testing.T) {
	sets := map[string]*Set{"all": mustSet(t, tinySpecs()...)}
	for _, spec := range tinySpecs() {
		sets[spec.Name+" tiny"] = mustSet(t, spec)
		sets[spec.Name] = mustSet(t, specOf(spec.Name, nil))
	}
	for name, set := range sets {
		questions, keys := map[string]bool{}, map[string]bool{}
		draws := uint64(120)
		if name == "all" {
			draws = 2000
		}
		for seed := range draws / 6 {
			item, err := set.DrawHeldOut(seed)
			require.NoError(t, err, name)
			require.True(t, HeldOut(item))
			questions[item.Question], keys[string(contentKey(item))] = true, true
		}
		for seed := range draws {
			item, err := set.Draw(seed)
			require.NoError(t, err, name)
			require.False(t, HeldOut(item))
			require.False(t, questions[item.Question], "%s: %s", name, item.Question)
			require.False(t, keys[string(contentKey(item))], "%s: %s", name, item.Question)
		}
	}
}

// A question never has two keys, so that no seed or index brings a held-out question into training.
func TestContentKeyIsDecidedByTheQuestion(t *testing.T) {
	for _, spec := range tinySpecs() {
		task, err := New(spec.Name, spec.Params)
		require.NoError(t, err)
		keys, repeated := map[string]string{}, 0
		for seed := range int64(1500) {
			item := task.Item(seed*7919, 3)
			key, seen := keys[item.Question]
			if seen {
				repeated++
				require.Equal(t, key, string(contentKey(item)), item.Question)
			}
			keys[item.Question] = string(contentKey(item))
		}
		if spec.Name != "arc_1d" {
			require.Positive(t, repeated, spec.Name)
		}
	}
}

func TestHeldOutIgnoresWordingIndexAndFormat(t *testing.T) {
	for _, spec := range tinySpecs() {
		task, err := New(spec.Name, spec.Params)
		require.NoError(t, err)
		item := task.Item(5, 0)
		other := item
		other.Question = "another wording"
		var metadata map[string]any
		require.NoError(t, json.Unmarshal(item.Metadata, &metadata))
		metadata["source_index"], metadata["dataset_index"] = 77, 3
		delete(metadata, "difficulty")
		other.Metadata, err = json.MarshalIndent(metadata, "", " ")
		require.NoError(t, err)
		require.Equal(t, string(contentKey(item)), string(contentKey(other)), spec.Name)
	}
	plain := Item{Question: "q", Metadata: json.RawMessage(`{"source_dataset":"gsm8k"}`)}
	require.Equal(t, string(contentKey(Item{Question: " q\n"})), string(contentKey(plain)))
	answer := "a"
	require.NotEqual(t, string(contentKey(Item{Question: "q", Answer: &answer})), string(contentKey(plain)))
}

// The split must not change between releases, or old experiments would have trained on what new ones test.
func TestSplitIsStable(t *testing.T) {
	set := mustSet(t, tinySpecs()...)
	var got []string
	for seed := range uint64(4) {
		item, err := set.DrawHeldOut(seed)
		require.NoError(t, err)
		got = append(got, string(contentKey(item)))
	}
	require.Equal(t, []string{
		`["fraction_simplification",2,10]`,
		`["calendar_arithmetic","weekday_offset","2023-11-26",3]`,
		`["calendar_arithmetic","weekday_of_date_from_first_date","Friday","01-05"]`,
		`["basic_arithmetic","(9--3)"]`,
	}, got)
	task, err := New("arc_1d", nil)
	require.NoError(t, err)
	heldOut := 0
	for index := range int64(1600) {
		if HeldOut(task.Item(0, index)) {
			heldOut++
		}
	}
	require.InDelta(t, 100, heldOut, 35)
}

func TestDrawFollowsSeedAndWeights(t *testing.T) {
	set := mustSet(t, Spec{Name: "bf", Weight: 3}, Spec{Name: "base_conversion", Weight: 1})
	counts, questions := map[bool]int{}, map[string]bool{}
	for seed := range uint64(2000) {
		item, err := set.Draw(seed)
		require.NoError(t, err)
		again, err := set.Draw(seed)
		require.NoError(t, err)
		require.Equal(t, item, again)
		counts[bytes.Contains(item.Metadata, []byte(`"source_dataset":"bf"`))]++
		questions[item.Question] = true
	}
	require.InDelta(t, 1500, counts[true], 100)
	require.Greater(t, len(questions), 1000)
}

func TestNewSetRefuses(t *testing.T) {
	one := map[string]any{"min_vars": 1, "max_vars": 1, "min_statements": 1, "max_statements": 1, "max_complexity": 1}
	for want, specs := range map[string][]Spec{
		"no tasks":          nil,
		"weight is 0":       {{Name: "bf"}},
		"weight is NaN":     {{Name: "bf", Weight: math.NaN()}},
		"weight is +Inf":    {{Name: "bf", Weight: math.Inf(1)}},
		"bf is named twice": {specOf("bf", nil), specOf("bf", nil)},
		"unknown task":      {specOf("chess", nil)},
		"min_size is 1":     {specOf("arc_1d", map[string]any{"min_size": 1})},
		"held-out part in 1000 draws, the last f": {specOf("propositional_logic", one)},
	} {
		_, err := NewSet(specs)
		require.ErrorContains(t, err, want)
	}
}

func TestSetScore(t *testing.T) {
	set := mustSet(t, specOf("bf", nil))
	text := func(s string) *string { return &s }
	fraction := mustTask(t, defaultFraction(), newFractionSimplification).Item(1, 1)
	logic := mustTask(t, defaultPropositional(), newPropositionalLogic).Item(1238, 0)
	for _, c := range []struct {
		item       Item
		completion string
		want       float64
	}{
		{fraction, "so <answer>" + *fraction.Answer + "</answer>", 1},
		{fraction, *fraction.Answer, 0.01},
		{logic, "<answer>¬(Q ∧ Q)</answer>", 1},
		{Item{Answer: text(" Paris ")}, "<answer>Paris</answer>", 1},
		{Item{Answer: text("Paris")}, "<answer>in Paris</answer>", 5.0 / 8},
		{Item{Answer: text("1,000"), Metadata: json.RawMessage(`{"source_dataset":"gsm8k"}`)}, "<answer>1000.0</answer>", 1},
		{Item{Answer: text("7")}, "7", 0},
		{Item{Answer: text("")}, "<answer></answer>", 0},
		{Item{}, "<answer>7</answer>", 0},
		{Item{Answer: text("7"), Metadata: json.RawMessage(`{`)}, "<answer>7</answer>", 1},
		{Item{Answer: text("7")}, "<answer>7</answer>" + strings.Repeat(" ", maxCompletion), 0},
	} {
		require.Equal(t, c.want, set.Score(c.item, c.completion), "%.60s", c.completion)
	}
}

func TestFileSet(t *testing.T) {
	var lines strings.Builder
	for i := range 200 {
		fmt.Fprintf(&lines, "{\"question\":\"q%d\",\"answer\":\"%d\"}\n\n", i, i)
	}
	items, err := ReadItems(strings.NewReader(lines.String()))
	require.NoError(t, err)
	require.Len(t, items, 200)
	set, err := NewFileSet(items)
	require.NoError(t, err)
	train, heldOut := map[string]bool{}, map[string]bool{}
	for seed := range uint64(4000) {
		item, err := set.Draw(seed)
		require.NoError(t, err)
		train[item.Question] = true
		item, err = set.DrawHeldOut(seed)
		require.NoError(t, err)
		heldOut[item.Question] = true
		require.Equal(t, 1.0, set.Score(item, "<answer>"+*item.Answer+"</answer>"))
	}
	require.Len(t, train, 200-len(heldOut))
	for question := range heldOut {
		require.False(t, train[question])
	}
	_, err = NewFileSet(items[:3])
	require.ErrorContains(t, err, "of 3 items")
}

func TestReadItemsNamesTheLine(t *testing.T) {
	const good = `{"question":"q","answer":null,"metadata":{"a":1}}` + "\n"
	items, err := ReadItems(strings.NewReader(good + `{"question":"r","metadata":null}`))
	require.NoError(t, err)
	require.Equal(t, []Item{{Question: "q", Metadata: json.RawMessage(`{"a":1}`)}, {Question: "r"}}, items)
	for bad, want := range map[string]string{
		"{":                                "line 2: read item",
		`{"answer":"1"}`:                   "line 2: question is missing",
		`{"question":"q","answer":1}`:      "line 2: read item",
		`{"question":"q","metadata":[1]}`:  "line 2: metadata must be an object",
		`{"question":"q"} {"question":""}`: "line 2: read item",
		strings.Repeat("x", maxLine+3):     "line 2 is longer than 1048576 bytes",
	} {
		_, err := ReadItems(strings.NewReader(good + bad + "\n" + good))
		require.ErrorContains(t, err, want)
	}
}

func FuzzReadItems(f *testing.F) {
	f.Add([]byte(`{"question":"q","answer":"a","metadata":{"source_dataset":"calendar_arithmetic","task":"count_days"}}`))
	for _, name := range Names() {
		task, err := New(name, nil)
		require.NoError(f, err)
		line, err := json.Marshal(task.Item(1, 1))
		require.NoError(f, err)
		f.Add(line)
	}
	set := mustSet(f, specOf("bf", nil))
	f.Fuzz(func(t *testing.T, text []byte) {
		items, err := ReadItems(bytes.NewReader(text))
		if err != nil {
			return
		}
		for _, item := range items {
			require.Equal(t, HeldOut(item), HeldOut(item))
			for _, answer := range []string{"7", "1/2", "P", "Monday", "[[0]]", item.Question} {
				score := set.Score(item, "<answer>"+answer+"</answer>")
				require.True(t, score >= 0 && score <= 1, "%v", score)
			}
		}
	})
}

func TestPrompts(t *testing.T) {
	prompts := SystemPrompts()
	require.Len(t, prompts, 6)
	for _, name := range []string{"DeepSeekZero", "default", "simple", "direct", "chain_of_draft"} {
		text, ok := SystemPrompt(name)
		require.True(t, ok)
		require.Contains(t, text, "<answer>")
		require.Contains(t, text, "</answer>")
		require.Equal(t, text+"\n\nWhy?", Prompt(text, "Why?"))
	}
	none, ok := SystemPrompt("none")
	require.True(t, ok)
	require.Equal(t, "Why?", Prompt(none, "Why?"))
	require.Equal(t, "Be brief.\n\nWhy?", Prompt("Be brief.\n", "Why?"))
	require.Equal(t, "Be brief.\n\n1?\n2\n\n3?\n4\n\nWhy?", Prompt("Be brief.", "1?", "2", "3?", "4", "Why?"))
	require.Equal(t, "1?\n2\n\nWhy?", Prompt("", "1?", "2", "Why?"))
	_, ok = SystemPrompt("other")
	require.False(t, ok)
}
