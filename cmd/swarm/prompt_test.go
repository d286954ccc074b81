package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/metrics/stats/evaluation"
	"github.com/sapo-swarm/swarm/node/evaluate"
)

func promptedOf(t *testing.T, o outcome) evaluate.Answers {
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
	var p evaluate.Answers
	require.NoError(t, json.Unmarshal([]byte(o.stdout), &p))
	return p
}

// testPrompt prompts nodes of TestEval's run, and the folder of node_0's newest checkpoint.
func testPrompt(t *testing.T, home, saved string) {
	drawn := promptedOf(t, swarm(t, home, "model", "prompt", "4loc4ext", "-n", "8", "-o", "json"))
	require.Equal(t, []any{"4loc4ext-1", 3, evaluation.ByHeldOut, "none"}, []any{drawn.Run, drawn.Round, drawn.Choice, drawn.SystemPrompt})
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

// testTransformersGreedy compares a saved folder's greedy completions with those of transformers, if
// SWARM_TEST_TRANSFORMERS is a Python that has it.
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
	spoiled := spoiledModel(t)
	for _, test := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{spoiled, "hi"}, 2, "Error: the weights of " + spoiled + " are not finite: they contain NaN or infinity\nTry: another folder or checkpoint\n"},
		{nil, 2, "swarm model prompt takes a run or a model, and at most one question, not 0 arguments\nTry: swarm model prompt --help"},
		{[]string{"zzz"}, 2, "no run, experiment or model \"zzz\" is known here\nTry: swarm ls"},
		{[]string{"gpt2", "hi"}, 1, "model openai-community/gpt2 isn't in the Hugging Face cache"},
		{[]string{"nano", "hi", "--node", "0"}, 2, "nano is a model, but --node needs a run\nTry: the same command without --node"},
		{[]string{tinyModel(), "hi", "--round", "3"}, 2, "is a folder, but --round needs a run"},
		{[]string{"nano", "hi", "--task", "bf"}, 2, "--task draws a question, so it excludes a QUESTION argument"},
		{[]string{"nano", "hi", "--index", "1"}, 2, "--index selects a question to draw, so it excludes a QUESTION argument"},
		{[]string{"nano", "--task", "nope"}, 2, `unknown task "nope": allowed: arc_1d`},
		{[]string{"nano", ""}, 2, "the question is empty\nTry: a question, or --task NAME"},
		{[]string{"nano", strings.Repeat("a", 256)}, 2, "the question has 256 tokens, but the context of nano has only 256"},
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

// spoiledModel returns the folder of a tiny model whose weights are all NaN.
func spoiledModel(t testing.TB) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "tiny")
	require.NoError(t, os.CopyFS(dir, os.DirFS(tinyModel())))
	path := filepath.Join(dir, "model.safetensors")
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	for i := 8 + int(binary.LittleEndian.Uint64(data)); i < len(data); i++ {
		data[i] = 0xff
	}
	require.NoError(t, os.WriteFile(path, data, 0o644))
	return dir
}

// If other processes fill the GPU, prompt uses the CPU, unless the user requested the GPU.
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
	require.Regexp(t, `^Warning: does not fit: .*Using the CPU\.\nLoading .* on cpu\.\n`, o.stderr)
	require.Regexp(t, `(?m)^model     tiny on cpu,`, o.stdout)
	o = ask("--device", "cuda")
	require.Equal(t, fail.ExitNoRoom, o.code, o.stderr)
}
