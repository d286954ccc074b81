package task

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNewMakesEveryTask(t *testing.T) {
	for _, name := range Names() {
		task, err := New(name, nil)
		require.NoError(t, err)
		require.Equal(t, name, task.Name())
		var meta struct {
			Dataset    string          `json:"source_dataset"`
			Index      int64           `json:"source_index"`
			Difficulty json.RawMessage `json:"difficulty"`
		}
		item := task.Item(1<<62, 1<<62)
		require.NoError(t, json.Unmarshal(item.Metadata, &meta))
		require.Equal(t, name, meta.Dataset)
		require.Equal(t, int64(1<<62), meta.Index)
		require.NotEmpty(t, meta.Difficulty)
	}
	_, err := New("gsm8k", nil)
	require.ErrorIs(t, err, ErrUnknownTask)
	require.ErrorContains(t, err, `"gsm8k"`)
}

func TestNewDecodesParams(t *testing.T) {
	task, err := New("arc_1d", map[string]any{"max_size": 12, "num_train": 2.0})
	require.NoError(t, err)
	require.Equal(t, arc1DParams{MinSize: 10, MaxSize: 12, NumTrain: 2}, task.(*arc1D).params)

	task, err = New("bf", map[string]any{"words": []any{"ab", "c"}})
	require.NoError(t, err)
	require.Equal(t, []string{"ab", "c"}, task.(*bf).params.Words)

	task, err = New("binary_matrix", map[string]any{"p_zero": 1})
	require.NoError(t, err)
	require.Equal(t, 1.0, task.(*binaryMatrix).params.PZero)
}

func TestNewRefusesParams(t *testing.T) {
	for _, c := range []struct {
		name   string
		params map[string]any
		want   string
	}{
		{"arc_1d", map[string]any{"min_sise": 9}, `task arc_1d: unknown parameter "min_sise": known are min_size, max_size, num_train`},
		{"arc_1d", map[string]any{"Min_Size": 9}, `unknown parameter "Min_Size"`},
		{"arc_1d", map[string]any{"min_size": 7}, "min_size is 7: it must be from 8 to 64"},
		{"arc_1d", map[string]any{"min_size": 31}, "max_size is 30: it must be from 31 to 64"},
		{"arc_1d", map[string]any{"num_train": 0}, "num_train is 0"},
		{"arc_1d", map[string]any{"num_train": 2.5}, "2.5: it must be a whole number"},
		{"arc_1d", map[string]any{"num_train": "3"}, "'num_train' expected type 'int'"},
		{"arc_1d", map[string]any{"num_train": uint64(1<<63 + 3)}, "it must be a whole number"},
		{"arc_1d", map[string]any{"num_train": nil}, "num_train is null"},
		{"base_conversion", map[string]any{"min_base": 16}, "max_base is 16: it must be from 17 to 36"},
		{"base_conversion", map[string]any{"min_base": 1}, "min_base is 1"},
		{"base_conversion", map[string]any{"max_value": -1}, "max_value is -1"},
		{"bf", map[string]any{"difficulty": 2}, "difficulty is 2: only 1"},
		{"bf", map[string]any{"words": []any{}}, "words has 0 entries"},
		{"bf", map[string]any{"words": []any{"ok", "né"}}, `words[1] is "né"`},
		{"binary_matrix", map[string]any{"p_zero": 1.5}, "p_zero is 1.5"},
		{"binary_matrix", map[string]any{"min_n": 0}, "min_n is 0"},
		{"binary_matrix", map[string]any{"max_n": 51}, "max_n is 51: it must be from 3 to 50"},
	} {
		_, err := New(c.name, c.params)
		require.ErrorContains(t, err, c.want)
	}
}
