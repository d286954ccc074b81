package task

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"io"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// testdata holds the library's own items (without their questions) and scores. Files with the suffix .gz are
// compressed. Items 0..299 come from datasets with the seeds in goldenSeeds.
var goldenSeeds = map[string]int64{
	"arc_1d": 42, "basic_arithmetic": 1234, "base_conversion": 1239, "bf": 1238, "binary_matrix": 1236,
	"calendar_arithmetic": 1237, "decimal_arithmetic": 1235, "fraction_simplification": 1236,
	"propositional_logic": 1238,
}

// readGolden decodes one value of T from each line of testdata/name.
func readGolden[T any](t testing.TB, name string) []T {
	t.Helper()
	file, err := os.Open("testdata/" + name)
	require.NoError(t, err)
	defer file.Close()
	var reader io.Reader = file
	if strings.HasSuffix(name, ".gz") {
		reader, err = gzip.NewReader(file)
		require.NoError(t, err)
	}
	var list []T
	lines := bufio.NewScanner(reader)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var value T
		require.NoError(t, json.Unmarshal(lines.Bytes(), &value), "%s line %d", name, len(list)+1)
		list = append(list, value)
	}
	require.NoError(t, lines.Err())
	require.NotEmpty(t, list)
	return list
}

// goldenItems returns the library's items 0..299 of a task, without questions.
func goldenItems(t testing.TB, name string) []Item {
	t.Helper()
	items := readGolden[Item](t, "examples/"+name+".jsonl.gz")
	require.Len(t, items, 300)
	return items
}

type goldenScore struct {
	EntryIndex int     `json:"entry_index"`
	Answer     *string `json:"answer"`
	Score      float64 `json:"score"`
}

func goldenScores(t testing.TB, name string) []goldenScore {
	t.Helper()
	return readGolden[goldenScore](t, "scores/"+name+".jsonl.gz")
}

// testGoldenItems requires the library's answers and metadata, byte for byte, and a question.
func testGoldenItems(t *testing.T, task Task) {
	t.Helper()
	for i, want := range goldenItems(t, task.Name()) {
		got := task.Item(goldenSeeds[task.Name()], int64(i))
		require.Equal(t, want.Answer, got.Answer, "answer of item %d", i)
		require.Equal(t, string(want.Metadata), string(got.Metadata), "metadata of item %d", i)
		require.NotEmpty(t, got.Question, "question of item %d", i)
	}
}

// testGoldenScores requires the library's scores within tolerance (0: exactly).
func testGoldenScores(t *testing.T, task Task, tolerance float64) {
	t.Helper()
	items := goldenItems(t, task.Name())
	for i, c := range goldenScores(t, task.Name()) {
		got := task.Score(items[c.EntryIndex], c.Answer)
		if math.Abs(got-c.Score) > tolerance {
			t.Errorf("case %d, item %d, answer %s: score %v, want %v", i, c.EntryIndex, quote(c.Answer), got, c.Score)
		}
	}
}

func quote(answer *string) string {
	text, err := json.Marshal(answer)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// fuzzScore seeds f with a task's golden answers and requires a score within [0, 1] for any text.
func fuzzScore(f *testing.F, task Task) {
	items := goldenItems(f, task.Name())
	for _, c := range goldenScores(f, task.Name()) {
		if c.Answer != nil && len(*c.Answer) < 4096 {
			f.Add(c.EntryIndex, *c.Answer)
		}
	}
	f.Fuzz(func(t *testing.T, index int, answer string) {
		item := items[uint(index)%uint(len(items))]
		score := task.Score(item, &answer)
		if !(score >= 0 && score <= 1) {
			t.Fatalf("score %v", score)
		}
	})
}
