package evaluate

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/node"
	"github.com/sapo-swarm/swarm/node/task"
	"github.com/sapo-swarm/swarm/node/tokenizer"
)

func TestDrawnQuestions(t *testing.T) {
	nano, err := configs.TaskSet("nano")
	require.NoError(t, err)
	tokens, err := tokenizer.New(tokenizer.NameBytes)
	require.NoError(t, err)
	without := nano[:0:0]
	for _, s := range nano {
		if s.Name != "bf" {
			without = append(without, s)
		}
	}
	m := &Model{Config: configs.Default(), tokens: tokens}
	m.Config.Tasks.SystemPrompt, m.Config.MaxPromptLength = "none", 60
	paper, err := configs.TaskSet("paper")
	require.NoError(t, err)
	sets := map[string][]configs.TaskSpec{"nano": nano, "paper": paper}
	for name, mixture := range map[string][]configs.TaskSpec{"nano": nano, "paper": without} {
		m.Config.Tasks.Mixture = mixture
		got, err := m.Draw("bf", 1, 2)
		require.NoError(t, err)
		sampled, err := task.Named("bf", sets[name], "")
		require.NoError(t, err)
		require.Equal(t, sampled.Item(1, 2), *got.Item, "swarm task sample bf --set %s --seed 1", name)
		require.Equal(t, 1.0, got.Score("<answer>"+*got.Item.Answer+"</answer>"))
		require.Zero(t, got.Score(*got.Item.Answer), "there are no tags")
	}

	m.tasks, err = task.Open(configs.Tasks{Mixture: nano})
	require.NoError(t, err)
	seen := map[string]bool{}
	for index := range int64(20) {
		got, err := m.Draw("", 3, index)
		require.NoError(t, err)
		require.True(t, task.HeldOut(*got.Item))
		require.LessOrEqual(t, len(got.Text), 60, "as training takes them")
		again, err := m.Draw("", 3, index)
		require.NoError(t, err)
		require.Equal(t, got.Text, again.Text)
		seen[got.Text] = true
	}
	require.Greater(t, len(seen), 15)
}

func TestQuestionOfStdinIsBounded(t *testing.T) {
	q, err := ReadQuestion(strings.NewReader("a\nb\xff\r\n"), "-")
	require.NoError(t, err)
	require.Equal(t, "a\nb\uFFFD", q.Text)
	_, err = ReadQuestion(strings.NewReader(strings.Repeat("x", maxQuestion+1)), "-")
	require.ErrorContains(t, err, "longer than 1048576 bytes")
}

// A model's text neither moves the cursor nor looks like the program's own output.
func TestPromptedIsPrintedSafely(t *testing.T) {
	four, score, wrong := "4\x1b[2J", 1.0, 0.25
	var out bytes.Buffer
	answers := &Answers{
		Run: "a-1", Node: "node_3", Round: 40, Model: "nano", Device: "cpu", Temperature: 0.9, Seed: 42, SystemPrompt: "none", Question: "2+2?\r\nThink.",
		drawn: "bf (as trained), seed 42, index 0", Because: "best recent reward, 0.500", CorrectAnswer: &four, MeanScore: &wrong, limit: 9,
		Completions: []node.Completion{
			{Text: "\x1b]0;title\x07<answer>4</answer>\ncompletion 2 of 2: score 1\u202e", Answer: &four, Score: &score, Tokens: 12, Finished: true},
			{Text: strings.Repeat("z", 5000), Score: new(float64), Tokens: 1},
		},
	}
	require.NoError(t, answers.Print(&out))
	require.Equal(t, `run       a-1, node_3 after 40 rounds (best recent reward, 0.500)
model     nano on cpu, temperature 0.9, seed 42, system prompt none
task      bf (as trained), seed 42, index 0
question
  2+2?
  Think.
correct   4

completion 1 of 2: score 1, answer 4, 12 tokens
  <answer>4</answer>
  completion 2 of 2: score 1

completion 2 of 2: score 0, no answer tags, 1 token, cut at 9
  `+strings.Repeat("z", 5000)+`

mean score 0.250 of 2 completions
`, out.String())
}
