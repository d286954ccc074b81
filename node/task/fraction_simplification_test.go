package task

import (
	"encoding/json"
	"fmt"
	"math/big"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFractionSimplificationGolden(t *testing.T) {
	task := mustTask(t, defaultFraction(), newFractionSimplification)
	testGoldenItems(t, task)
	testGoldenScores(t, task, 0)
}

func TestFractionSimplificationAgainstRationals(t *testing.T) {
	params := defaultFraction()
	params.Styles = append(params.Styles, "latex_inline")
	task := mustTask(t, params, newFractionSimplification)
	for index := range int64(400) {
		item := task.Item(3, index)
		var m struct{ Numerator, Denominator int64 }
		require.NoError(t, json.Unmarshal(item.Metadata, &m))
		reduced := big.NewRat(m.Numerator, m.Denominator)
		plain := fmt.Sprintf("%s/%s", reduced.Num(), reduced.Denom())
		require.Equal(t, 1.0, task.Score(item, &plain), string(item.Metadata))
		require.Equal(t, 1.0, task.Score(item, item.Answer), *item.Answer)
		question := fmt.Sprintf("%d/%d", m.Numerator, m.Denominator)
		require.Equal(t, 0.1, task.Score(item, &question), question)
		require.True(t, strings.Contains(item.Question, fmt.Sprint(m.Numerator)) &&
			strings.Contains(item.Question, fmt.Sprint(m.Denominator)), item.Question)
	}
}

func TestFractionScoreNeedsMetadata(t *testing.T) {
	task := mustTask(t, defaultFraction(), newFractionSimplification)
	answer := "1/2"
	for _, metadata := range []string{"", "null", "[]", `{"numerator":"x"}`, `{`} {
		require.Less(t, task.Score(Item{Metadata: json.RawMessage(metadata)}, &answer), 0.06, metadata)
	}
	require.Equal(t, 0.01, task.Score(task.Item(1, 1), nil))
}

func FuzzScoreFractionSimplification(f *testing.F) {
	fuzzScore(f, mustTask(f, defaultFraction(), newFractionSimplification))
}
