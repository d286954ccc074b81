package task

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// run is a maximal run of one color in a row, as a person would see it.
type run struct{ at, length, color int }

func runsOf(row []int) []run {
	var runs []run
	for i, color := range row {
		switch last := len(runs) - 1; {
		case color == 0:
		case i > 0 && row[i-1] == color:
			runs[last].length++
		default:
			runs = append(runs, run{i, 1, color})
		}
	}
	return runs
}

func render(n int, runs []run) []int {
	row := make([]int, n)
	for _, r := range runs {
		for i := r.at; i < r.at+r.length; i++ {
			row[i] = r.color
		}
	}
	return row
}

// inOrder places runs in the given order, with one empty cell between them.
func inOrder(runs []run) []run {
	at := 0
	for i := range runs {
		runs[i].at = at
		at += runs[i].length + 1
	}
	return runs
}

func rotated(row []int, k int) []int {
	return slices.Concat(row[len(row)-k:], row[:len(row)-k])
}

func byLength(a, b run) int { return a.length - b.length }

// arcOracle returns a solver that uses only the input, for rules where the input determines the output. It returns
// nil for rules without a solver here.
func arcOracle(name string) func(row []int) []int {
	if base, ok := strings.CutSuffix(name, "_left"); ok {
		right := arcOracle(base + "_right")
		return func(row []int) []int {
			row = slices.Clone(row)
			slices.Reverse(row)
			row = right(row)
			slices.Reverse(row)
			return row
		}
	}
	keep := func(row []int, wanted func(c int) bool) []int {
		var kept []int
		for _, c := range row {
			if wanted(c) {
				kept = append(kept, c)
			}
		}
		return kept
	}
	pad := func(row []int, n int) []int { return append(row, make([]int, n-len(row))...) }
	switch {
	case strings.HasPrefix(name, "move_") && strings.HasSuffix(name, "_right"):
		return func(row []int) []int { return rotated(row, int(name[5]-'0')) }
	case strings.HasPrefix(name, "block_touch_dot"):
		return func(row []int) []int {
			runs := runsOf(row)
			reach, dotColor := len(row), 1
			if strings.HasSuffix(name, "pix") {
				reach, dotColor = int(name[16]-'0'), 2
			}
			if runs[1].color == dotColor {
				runs[0].at = min(runs[0].at+reach, runs[1].at-runs[0].length)
			} else {
				runs[1].at = max(runs[1].at-reach, runs[0].at+1)
			}
			return render(len(row), runs)
		}
	}
	return map[string]func(row []int) []int{
		"gravity_right": func(row []int) []int { return pad(keep(row, func(c int) bool { return c != 0 }), len(row)) },
		"gravity_counting_right": func(row []int) []int {
			return render(len(row), []run{{0, len(keep(row, func(c int) bool { return c != 0 })), 1}})
		},
		"gravity_weighted_colors_right": func(row []int) []int {
			sorted := slices.Sorted(slices.Values(row))
			slices.Reverse(sorted)
			return sorted
		},
		"gravity_one_step_right": func(row []int) []int {
			gap := slices.Index(append(slices.Clone(row), 0), 0)
			return pad(slices.Delete(slices.Clone(row), gap, min(gap+1, len(row))), len(row))
		},
		"gravity_antigravity_right": func(row []int) []int {
			ones := keep(row, func(c int) bool { return c == 1 })
			return append(pad(keep(row, func(c int) bool { return c == 2 }), len(row)-len(ones)), ones...)
		},
		"two_points_and_fill": func(row []int) []int {
			runs := runsOf(row)
			last := runs[len(runs)-1]
			return render(len(row), []run{{runs[0].at, last.at + last.length - runs[0].at, last.color}})
		},
		"move_block_by_own_size": func(row []int) []int { return rotated(row, runsOf(row)[0].length) },
		"paint_biggest_block": func(row []int) []int {
			runs := runsOf(row)
			runs[slices.Index(runs, slices.MaxFunc(runs, byLength))].color = 1
			return render(len(row), runs)
		},
		"recolor_blocks_by_size": func(row []int) []int {
			runs := runsOf(row)
			slices.SortFunc(runs, byLength)
			runs[0].color, runs[1].color = 2, 1
			return render(len(row), runs)
		},
		"sort_blocks_by_size": func(row []int) []int {
			return render(len(row), inOrder(slices.SortedFunc(slices.Values(runsOf(row)), byLength)))
		},
		"sort_complete_sequence": func(row []int) []int {
			return render(len(row), inOrder(slices.SortedFunc(slices.Values(runsOf(row)), byLength)))
		},
		"color_left_half_blocks": func(row []int) []int {
			runs := runsOf(row)
			for _, r := range runs {
				runs = append(runs, run{r.at, r.length / 2, 8})
			}
			return render(len(row), runs)
		},
		"reflect_block_around_dot": func(row []int) []int {
			dot, out := slices.Index(row, 2), make([]int, len(row))
			for i, c := range row {
				if c != 0 {
					out[2*dot-i] = c
				}
			}
			return out
		},
		"recolor_blocks_from_palette": func(row []int) []int {
			out, blocks := slices.Clone(row), 0
			for i, c := range row {
				if c == 5 && row[max(i-1, 0)] != 5 && i > slices.Index(row, 0) {
					blocks++
				}
				if c == 5 && i > slices.Index(row, 0) {
					out[i] = row[blocks-1]
				}
			}
			return out
		},
		"mark_size_two_blocks": func(row []int) []int {
			marked := append(append([]int{0}, row...), 0)
			for _, r := range runsOf(row) {
				if r.length == 2 {
					marked[r.at], marked[r.at+3] = 3, 3
				}
			}
			return marked[1 : len(marked)-1]
		},
		"fill_until_collision": func(row []int) []int {
			out := slices.Clone(row)
			if row[0] == 5 {
				for i := len(row) - 2; i > 0; i-- {
					if out[i] == 0 {
						out[i] = out[i+1]
					}
				}
				return out
			}
			for i := 1; i < len(row); i++ {
				if out[i] == 0 {
					out[i] = out[i-1]
				}
			}
			return out
		},
	}[name]
}

// The solvers solve questions of other seeds and sizes from their text.
func TestArc1DOracle(t *testing.T) {
	task, err := newArc1D(arc1DParams{MinSize: arcMinSize, MaxSize: 40, NumTrain: 1})
	require.NoError(t, err)
	solved := 0
	for i := range int64(700) {
		item := task.Item(1_000_000, i)
		var meta struct {
			Name  string                `json:"task_name"`
			Train []map[string]([]int)  `json:"train_examples"`
			Test  struct{ Input []int } `json:"test_example"`
		}
		require.NoError(t, json.Unmarshal(item.Metadata, &meta))
		require.Contains(t, item.Question, "Input: "+arcRow(meta.Train[0]["input"]).text()+"\nOutput: "+arcRow(meta.Train[0]["output"]).text()+"\n")
		require.True(t, strings.HasSuffix(item.Question, "Input: "+arcRow(meta.Test.Input).text()))
		if oracle := arcOracle(meta.Name); oracle != nil {
			require.Equal(t, arcRow(oracle(meta.Test.Input)).text(), *item.Answer, "%s of %v", meta.Name, meta.Test.Input)
			solved++
		}
	}
	require.Greater(t, solved, 400)
}
