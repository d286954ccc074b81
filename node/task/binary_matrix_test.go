package task

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestBinaryMatrixGolden(t *testing.T) {
	task := defaultTask(t, defaultBinaryMatrix(), newBinaryMatrix)
	testGoldenItems(t, task)
	testGoldenScores(t, task, 0)
}

// The distances equal those of a search over all cells.
func TestBinaryMatrixItems(t *testing.T) {
	for _, p := range []binaryMatrixParams{{1, 12, 0.25}, {1, 9, 0}, {9, 9, 0.02}, {4, 4, 1}} {
		task := defaultTask(t, p, newBinaryMatrix)
		for i := range int64(80) {
			item := task.Item(11, i)
			var meta struct {
				Matrix   [][]int `json:"matrix"`
				Solution [][]int `json:"solution"`
				N        int     `json:"n"`
			}
			require.NoError(t, json.Unmarshal(item.Metadata, &meta))
			require.Len(t, meta.Matrix, meta.N)
			require.Equal(t, nearestZeros(meta.Matrix), meta.Solution)
			require.Contains(t, item.Question, matrixText(meta.Matrix))
			literal, err := json.Marshal(meta.Solution)
			require.NoError(t, err)
			text := string(literal)
			require.Equal(t, 0.1, task.Score(item, &text))
			require.Equal(t, 1.0, task.Score(item, item.Answer))
		}
	}
}

func nearestZeros(matrix [][]int) [][]int {
	distances := make([][]int, len(matrix))
	for i, row := range matrix {
		distances[i] = make([]int, len(row))
		for j := range row {
			nearest := 1 << 30
			for y := range matrix {
				for x, cell := range matrix[y] {
					if cell == 0 {
						nearest = min(nearest, max(y-i, i-y)+max(x-j, j-x))
					}
				}
			}
			distances[i][j] = nearest
		}
	}
	return distances
}

// The library evaluates these Python expressions. This verifier refuses everything except plain literals, and never
// gives a higher score than the library.
func TestBinaryMatrixRefusesExpressions(t *testing.T) {
	task := defaultTask(t, defaultBinaryMatrix(), newBinaryMatrix)
	items := goldenItems(t, "binary_matrix")
	for _, c := range readGolden[goldenScore](t, "exotic_eval.jsonl") {
		want := 0.0
		if (*c.Answer)[0] == '\'' { // a bare tuple of strings is a literal
			want = c.Score
		}
		require.Equal(t, want, task.Score(items[c.EntryIndex], c.Answer), "%s", *c.Answer)
	}
}

func FuzzScoreBinaryMatrix(f *testing.F) {
	fuzzScore(f, defaultTask(f, defaultBinaryMatrix(), newBinaryMatrix))
}
