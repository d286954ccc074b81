package task

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// hostileMetadata returns objects that an untrusted sender may send for a task: the right keys with values of every
// wrong type.
func hostileMetadata(name string) []string {
	values := []string{
		`null`, `true`, `-1`, `0`, `1e400`, `1e-400`, `9223372036854775808`, `0.1`, `""`, `"x"`, `"\u0000"`, `"9999-99-99"`, `"-"`, `"1e999999999"`, `[]`, `{}`,
		`[[[[[[[[]]]]]]]]`, `["P","P"]`, `[null]`, `[[0],[0,0],[]]`, `[{"input":null}]`, `{"input":{"input":[]}}`,
	}
	keys := map[string][]string{
		"arc_1d":                  {"train_examples", "test_example", "size"},
		"basic_arithmetic":        {"expression", "num_terms"},
		"base_conversion":         {"decimal_value", "source_base", "target_base"},
		"bf":                      {"bf_program", "bfit_code"},
		"binary_matrix":           {"matrix", "solution"},
		"calendar_arithmetic":     {"task", "target_date", "first_day", "year"},
		"decimal_arithmetic":      {"decimal_places", "num_terms"},
		"fraction_simplification": {"numerator", "denominator", "simplified_numerator", "simplified_denominator"},
		"propositional_logic":     {"premises", "variables"},
	}[name]
	var list []string
	for _, key := range keys {
		for _, value := range values {
			list = append(list, fmt.Sprintf(`{"source_dataset":%q,%q:%s}`, name, key, value))
		}
	}
	return list
}

// judged scores an item as a node does with an untrusted sender's rollout, and checks the bounds of the score.
func judged(t *testing.T, set *Set, item Item, completion string) {
	score := set.Score(item, completion)
	if !(score >= 0 && score <= 1) {
		t.Fatalf("score %v", score)
	}
	if held := HeldOut(item); held && len(contentKey(item)) == 0 {
		t.Fatal("held out for nothing")
	}
	_ = item.Task()
}

// No metadata make a verifier panic, hang or score outside 0..1.
func TestVerifiersStandHostileMetadata(t *testing.T) {
	set, err := NewSet([]Spec{{Name: "basic_arithmetic", Weight: 1}})
	require.NoError(t, err)
	answers := []string{"", "1", "-1/0", "Monday", "1e999999999", "P", "[[0]]", "0 1"}
	for _, name := range Names() {
		item := goldenItems(t, name)[0]
		for _, metadata := range append(hostileMetadata(name), `{"source_dataset":["`+name+`"]}`, `{}`, `[]`, ``, `{`) {
			for _, answer := range answers {
				judged(t, set, Item{Metadata: json.RawMessage(metadata), Answer: &answer}, "<answer>"+answer+"</answer>")
				judged(t, set, Item{Metadata: json.RawMessage(metadata), Answer: item.Answer}, "<answer>"+answer+"</answer>")
				judged(t, set, Item{Metadata: json.RawMessage(metadata)}, answer)
			}
		}
	}
}

// Long metadata and answer keys need time and memory in proportion: a few milliseconds and megabytes. The bounds
// have slack for the race detector on a busy machine.
func TestVerifiersAreFrugalWithHostileMetadata(t *testing.T) {
	const size, seconds, bytes = 64 << 10, 2 * time.Second, 64 << 20 // size of a rollout
	set, err := NewSet([]Spec{{Name: "basic_arithmetic", Weight: 1}})
	require.NoError(t, err)
	for _, name := range Names() {
		for _, shape := range []string{`"%s"`, `["%s"]`, `%s0`} {
			for _, text := range []string{"9", "[", "P∧", "e9", `\u0000`} {
				long := strings.Repeat(text, size/len(text))
				for _, template := range hostileMetadata(name)[:1] {
					metadata := strings.Replace(template, "null", strings.Replace(shape, "%s", long, 1), 1)
					var before, after runtime.MemStats
					runtime.ReadMemStats(&before)
					began := time.Now()
					judged(t, set, Item{Metadata: json.RawMessage(metadata), Answer: &long}, "<answer>"+text+"</answer>")
					took := time.Since(began)
					runtime.ReadMemStats(&after)
					require.Less(t, took, seconds, "%s: %s of %q", name, shape, text)
					require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(bytes), "%s: %s of %q", name, shape, text)
				}
			}
		}
	}
}

func FuzzScoreMetadata(f *testing.F) {
	set, err := NewSet([]Spec{{Name: "basic_arithmetic", Weight: 1}})
	require.NoError(f, err)
	for _, name := range Names() {
		item := goldenItems(f, name)[0]
		answer := ""
		if item.Answer != nil {
			answer = *item.Answer
		}
		f.Add(item.Question, answer, []byte(item.Metadata), "<answer>"+answer+"</answer>")
		for _, metadata := range hostileMetadata(name) {
			f.Add("", "1", []byte(metadata), "<answer>1</answer>")
		}
	}
	f.Fuzz(func(t *testing.T, question, answer string, metadata []byte, completion string) {
		item := Item{Question: question, Answer: &answer, Metadata: metadata}
		judged(t, set, item, completion)
		item.Answer = nil
		judged(t, set, item, completion)
	})
}
