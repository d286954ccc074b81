package task

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestBaseConversionGolden(t *testing.T) {
	task := defaultTask(t, defaultBaseConversion(), newBaseConversion)
	testGoldenItems(t, task)
	testGoldenScores(t, task, 0)
}

func TestBaseConversionItems(t *testing.T) {
	p := baseConversionParams{MinBase: 2, MaxBase: 36, MinValue: 1, MaxValue: 1 << 40}
	task := defaultTask(t, p, newBaseConversion)
	for i := range int64(400) {
		item := task.Item(99, i)
		var meta struct {
			Value  int    `json:"decimal_value"`
			Source int    `json:"source_base"`
			Target int    `json:"target_base"`
			From   string `json:"source_repr"`
			To     string `json:"target_repr"`
		}
		require.NoError(t, json.Unmarshal(item.Metadata, &meta))
		require.NotEqual(t, meta.Source, meta.Target)
		require.Equal(t, meta.Value, valueOf(t, meta.From, meta.Source))
		require.Equal(t, meta.Value, valueOf(t, meta.To, meta.Target))
		require.Equal(t, meta.To, *item.Answer)
		require.Contains(t, item.Question, " "+meta.From+" ")
		require.Equal(t, 1.0, task.Score(item, &meta.To))
	}
}

// valueOf evaluates digits 0-9a-z by Horner's rule.
func valueOf(t *testing.T, digits string, base int) int {
	t.Helper()
	require.NotEmpty(t, digits)
	value := 0
	for _, c := range digits {
		digit := int(c - '0')
		if c >= 'a' {
			digit = int(c-'a') + 10
		}
		require.True(t, digit >= 0 && digit < base, "digit %c in base %d", c, base)
		value = value*base + digit
	}
	return value
}

func TestBaseConversionOfZero(t *testing.T) {
	require.Equal(t, []string{"0", "", "", "0"},
		[]string{digitsInBase(0, 2), digitsInBase(0, 3), digitsInBase(0, 10), digitsInBase(0, 16)})
}

func FuzzScoreBaseConversion(f *testing.F) {
	fuzzScore(f, defaultTask(f, defaultBaseConversion(), newBaseConversion))
}
