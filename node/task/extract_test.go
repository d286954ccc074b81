package task

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestExtractAnswerGolden(t *testing.T) {
	for _, c := range readGolden[struct {
		Completion string
		Extracted  *string
	}](t, "extract.jsonl.gz") {
		require.Equal(t, quote(c.Extracted), quote(ExtractAnswer(c.Completion)), "%q", c.Completion)
	}
}

func TestDecimalRewardGolden(t *testing.T) {
	for _, c := range readGolden[struct {
		Answer      *string
		Oracle      string
		StripCommas bool `json:"strip_commas"`
		Reward      float64
	}](t, "decimal_reward.jsonl") {
		require.Equal(t, c.Reward, DecimalReward(c.Answer, c.Oracle, c.StripCommas), "%s against %q", quote(c.Answer), c.Oracle)
	}
}

// Where the library raises, the score is 0.
func TestRaisesScoreZero(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range readGolden[struct {
		Task        string
		EntryIndex  int `json:"entry_index"`
		Answer      string
		Oracle      string
		StripCommas bool `json:"strip_commas"`
	}](t, "raises.jsonl.gz") {
		seen[c.Task] = true
		if c.Task == "compute_decimal_reward" {
			require.Zero(t, DecimalReward(&c.Answer, c.Oracle, c.StripCommas))
			continue
		}
		task, err := New(c.Task, nil)
		require.NoError(t, err)
		require.Zero(t, task.Score(goldenItems(t, c.Task)[c.EntryIndex], &c.Answer), "%s %.40q", c.Task, c.Answer)
	}
	require.Len(t, seen, 4)
}

func FuzzExtractAnswer(f *testing.F) {
	f.Add("<answer>1 <answer>2</answer> <answer>")
	f.Add("</answer><answer>\u2003x\u200b</answer>")
	f.Fuzz(func(t *testing.T, completion string) {
		answer := ExtractAnswer(completion)
		found := strings.Contains(completion, "<answer>") &&
			strings.Contains(completion[strings.Index(completion, "<answer>"):], "</answer>")
		require.Equal(t, found, answer != nil)
		if answer == nil {
			return
		}
		require.Equal(t, pyStrip(*answer), *answer)
		require.NotContains(t, *answer, "</answer>")
		// Text after the last pair changes nothing unless it closes another pair.
		require.Equal(t, *answer, *ExtractAnswer(completion[:strings.LastIndex(completion, "</answer>")+len("</answer>")]))
	})
}

func FuzzDecimalReward(f *testing.F) {
	f.Add("1,000.50", "1000.5", true)
	f.Add("-Infinity", "-inf", false)
	f.Add("1e999999999999999999", "1E+999999999999999999", true)
	f.Fuzz(func(t *testing.T, answer, oracle string, stripCommas bool) {
		reward := DecimalReward(&answer, oracle, stripCommas)
		require.True(t, reward >= 0 && reward <= 1, "%v", reward)
		if answer == oracle && strings.Trim(answer, ",") != "" {
			require.Equal(t, 1.0, reward)
		}
	})
}
