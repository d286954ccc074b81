package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/metrics/stats"
	"github.com/sapo-swarm/swarm/node"
	"github.com/sapo-swarm/swarm/node/task"
	"github.com/sapo-swarm/swarm/node/tokenizer"
)

func promptedOf(t *testing.T, o outcome) prompted {
	t.Helper()
	require.Equal(t, 0, o.code, o.stderr)
	document := fields(t, decode(t, o.stdout), map[string]string{
		"run": "string", "model": "string", "node": "string", "node_chosen_by": "string", "round": "number", "device": "string", "task": "string",
		"index": "number", "seed": "number", "system_prompt": "string", "question": "string", "correct_answer": "string?",
		"prompt_tokens": "number", "temperature": "number", "completions": "array", "mean_score": "number?",
	})
	for _, c := range document["completions"].([]any) {
		fields(t, c, map[string]string{"text": "string", "answer": "string?", "score": "number?", "tokens": "number", "finished": "bool"})
	}
	var p prompted
	require.NoError(t, json.Unmarshal([]byte(o.stdout), &p))
	return p
}

// testPrompt asks nodes of TestEval's run, and the folder of node_0's newest checkpoint.
func testPrompt(t *testing.T, home, saved string) {
	drawn := promptedOf(t, swarm(t, home, "model", "prompt", "4loc4ext", "-n", "8", "-o", "json"))
	require.Equal(t, []any{"4loc4ext-1", 3, stats.ByHeldOut, "none"}, []any{drawn.Run, drawn.Round, drawn.Choice, drawn.SystemPrompt})
	require.Contains(t, drawn.Question, " mod 3, plus 1")
	require.Regexp(t, `^node_[01]$`, drawn.Node)
	require.Len(t, drawn.Completions, 8)
	sum := 0.0
	for _, c := range drawn.Completions {
		require.LessOrEqual(t, c.Tokens, 24, "max_completion_length of the run")
		require.Equal(t, c.Answer != nil && *c.Answer == *drawn.CorrectAnswer, *c.Score == 1, c.Text)
		sum += *c.Score
	}
	require.InDelta(t, sum/8, *drawn.MeanScore, 1e-12)

	// Another process and another folder with the same weights give the same completions.
	cmd := swarmCommand(t, home, "model", "prompt", "4loc4ext", "-", "--node", "0", "--seed", "7", "-o", "json")
	cmd.Stdin = strings.NewReader("Über 9?\n")
	said := finish(t, cmd)
	require.Equal(t, "Loading "+tinyModel()+" on cpu.\nSampling 4 completions of at most 24 tokens.\n", said.stderr)
	asked := promptedOf(t, said)
	require.Equal(t, []string{"Über 9?", "node_0", ""}, []string{asked.Question, asked.Node, asked.Choice})
	folder := promptedOf(t, swarm(t, home, "model", "prompt", saved, "Über 9?", "--seed", "7", "--max-completion-length", "24", "-o", "json"))
	require.Equal(t, asked.Completions, folder.Completions)
	require.Len(t, folder.Completions, 4)
	require.Nil(t, folder.MeanScore)
	testTransformersGreedy(t, home, saved)
}

// testTransformersGreedy compares a saved folder's greedy completions with those of transformers, where SWARM_TEST_TRANSFORMERS names a Python
// that has it.
func testTransformersGreedy(t *testing.T, home, saved string) {
	python := os.Getenv("SWARM_TEST_TRANSFORMERS")
	if python == "" {
		t.Log("not compared with transformers: SWARM_TEST_TRANSFORMERS names no Python that has it")
		return
	}
	questions := []string{"9 mod 3, plus 1", "é 🙂", "x"}
	asked, err := json.Marshal(map[string]any{"folder": saved, "questions": questions, "limit": 24})
	require.NoError(t, err)
	command := exec.Command(python, filepath.Join("testdata", "transformers_greedy.py"))
	command.Stdin, command.Stderr = bytes.NewReader(asked), os.Stderr
	out, err := command.Output()
	require.NoError(t, err)
	var theirs struct {
		Version string
		IDs     [][]int
		Texts   []string
	}
	require.NoError(t, json.Unmarshal(out, &theirs))
	for i, question := range questions {
		ours := promptedOf(t, swarm(t, home, "model", "prompt", saved, question, "-n", "1", "--temperature", "0", "--max-completion-length", "24", "-o", "json"))
		require.Equal(t, theirs.Texts[i], ours.Completions[0].Text, "transformers %s", theirs.Version)
		require.Len(t, theirs.IDs[i], ours.Completions[0].Tokens)
	}
}

func TestPromptRefuses(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HF_HOME", home)
	t.Setenv("HF_HUB_CACHE", "")
	t.Setenv("SWARM_NVML_LIBRARY", filepath.Join(home, "absent.so"))
	for _, test := range []struct {
		args []string
		code int
		want string
	}{
		{nil, 2, "swarm model prompt takes a run or a model, and at most one question, not 0 arguments\nTry: swarm model prompt --help"},
		{[]string{"zzz"}, 2, "no run, experiment or model \"zzz\" is known here\nTry: swarm ls"},
		{[]string{"gpt2", "hi"}, 1, "model openai-community/gpt2 isn't in the Hugging Face cache"},
		{[]string{"nano", "hi", "--node", "0"}, 2, "nano is a model, and --node is a run's\nTry: the same without --node"},
		{[]string{tinyModel(), "hi", "--round", "3"}, 2, "is a folder, and --round is a run's"},
		{[]string{"nano", "hi", "--task", "bf"}, 2, "--task draws a question of its own and takes none"},
		{[]string{"nano", "hi", "--index", "1"}, 2, "--index is of a question that is drawn"},
		{[]string{"nano", "--task", "nope"}, 2, `unknown task "nope": allowed: arc_1d`},
		{[]string{"nano", ""}, 2, "the question is empty\nTry: a question, or --task NAME"},
		{[]string{"nano", strings.Repeat("a", 256)}, 2, "the question has 256 tokens, and the context of nano 256"},
		{[]string{"nano", "hi", "-n", "0"}, 2, `bad completions "0": allowed: a whole number from 1 to 256`},
		{[]string{"nano", "--index", "-1"}, 2, `bad index "-1"`},
		{[]string{"nano", "hi", "--temperature", "NaN"}, 2, `bad temperature "NaN": allowed: a number from 0 to 100`},
		{[]string{"nano", "hi", "--top-p", "0"}, 2, `bad top-p "0": allowed: a number above 0, at most 1`},
		{[]string{"nano", "hi", "--device", "tpu"}, 2, `bad device "tpu" (--device): allowed: auto, cpu, cuda, cuda:N`},
		{[]string{"nano", "hi", "--device", "cuda"}, 3, "does not fit: no usable GPU"},
		{[]string{"nano", "hi", "-o", "yaml"}, 2, "text or json"},
	} {
		var stdout, stderr bytes.Buffer
		code := run(append([]string{"--home", home, "model", "prompt"}, test.args...), strings.NewReader(""), &stdout, &stderr)
		require.Equal(t, test.code, code, "%v: %s", test.args, stderr.String())
		require.Contains(t, stderr.String(), test.want)
		require.Empty(t, stdout.String())
	}
}

func TestChosenBecause(t *testing.T) {
	for want, choice := range map[string]stats.Choice{
		"best held-out reward, 0.250 after 1 round": {Node: "node_1", By: stats.ByHeldOut, Reward: 0.25, Round: 1},
		"best recent reward, 0.500":                 {Node: "node_1", By: stats.ByRecent, Reward: 0.5, Round: 9},
		"the first; no reward is known":             {Node: "node_0", By: stats.ByOrder},
		"":                                          {Node: "node_0"},
	} {
		require.Equal(t, want, chosenBecause(choice))
	}
}

// A GPU that others fill leaves the answer to the CPU, unless the GPU was asked for.
func TestPromptGoesToTheCPUWhereTheGPUIsFull(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	ask := func(more ...string) outcome {
		cmd := swarmCommand(t, home, append([]string{"model", "prompt", tinyModel(), "1 mod 3", "-n", "1"}, more...)...)
		cmd.Env = append(cmd.Env, "SWARM_NVML_LIBRARY="+fakeNVML(t), "FAKE_NVML=Tesla T4:15360:100")
		return finish(t, cmd)
	}
	o := ask()
	require.Equal(t, 0, o.code, o.stderr)
	require.Regexp(t, `^Warning: does not fit: .*The CPU answers\.\nLoading .* on cpu\.\n`, o.stderr)
	require.Regexp(t, `(?m)^model     tiny on cpu,`, o.stdout)
	o = ask("--device", "cuda")
	require.Equal(t, fail.ExitNoRoom, o.code, o.stderr)
}

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
	x := &examinee{config: configs.Default(), tokens: tokens}
	x.config.Tasks.SystemPrompt, x.config.MaxPromptLength = "none", 60
	o := promptOptions{task: "bf", seed: 1, index: 2}
	for name, mixture := range map[string][]configs.TaskSpec{"nano": nano, "paper": without} {
		x.config.Tasks.Mixture = mixture
		got, err := o.ofTask(x)
		require.NoError(t, err)
		sampled, err := taskOptions{set: name}.open("bf")
		require.NoError(t, err)
		require.Equal(t, sampled.Item(1, 2), *got.item, "swarm task sample bf --set %s --seed 1", name)
		require.Equal(t, 1.0, got.score("<answer>"+*got.item.Answer+"</answer>"))
		require.Zero(t, got.score(*got.item.Answer), "there are no tags")
	}

	x.tasks, err = task.Open(configs.Tasks{Mixture: nano})
	require.NoError(t, err)
	o = promptOptions{seed: 3}
	seen := map[string]bool{}
	for o.index = range 20 {
		got, err := o.question(nil, x, nil)
		require.NoError(t, err)
		require.True(t, task.HeldOut(*got.item))
		require.LessOrEqual(t, len(got.text), 60, "as training takes them")
		again, err := o.question(nil, x, nil)
		require.NoError(t, err)
		require.Equal(t, got.text, again.text)
		seen[got.text] = true
	}
	require.Greater(t, len(seen), 15)
}

func TestQuestionOfStdinIsBounded(t *testing.T) {
	text, err := readQuestion(strings.NewReader("a\nb\xff\r\n"), "-")
	require.NoError(t, err)
	require.Equal(t, "a\nb\uFFFD", text)
	_, err = readQuestion(strings.NewReader(strings.Repeat("x", maxQuestion+1)), "-")
	require.ErrorContains(t, err, "longer than 1048576 bytes")
}

// What a model writes neither moves the cursor nor looks like a line of ours.
func TestPromptedIsPrintedSafely(t *testing.T) {
	four, score, wrong := "4\x1b[2J", 1.0, 0.25
	var out bytes.Buffer
	require.NoError(t, printPrompted(&out, &prompted{
		Run: "a-1", Node: "node_3", Round: 40, Model: "nano", Device: "cpu", Temperature: 0.9, Seed: 42, SystemPrompt: "none", Question: "2+2?\r\nThink.",
		drawn: "bf (as trained), seed 42, index 0", why: "best recent reward, 0.500", CorrectAnswer: &four, MeanScore: &wrong, limit: 9,
		Completions: []node.Completion{
			{Text: "\x1b]0;title\x07<answer>4</answer>\ncompletion 2 of 2: score 1\u202e", Answer: &four, Score: &score, Tokens: 12, Finished: true},
			{Text: strings.Repeat("z", 5000), Score: new(float64), Tokens: 1},
		},
	}))
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
