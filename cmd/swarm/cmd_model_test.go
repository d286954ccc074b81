package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/layout"
	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/launcher/recorded"
	"github.com/sapo-swarm/swarm/node/best"
	"github.com/sapo-swarm/swarm/node/model"
	"github.com/sapo-swarm/swarm/node/model/hub/hubtest"
)

// tinyFiles returns the tiny model's files, and a tokenizer's file.
func tinyFiles(t testing.TB) map[string][]byte {
	t.Helper()
	files := map[string][]byte{"tokenizer_config.json": []byte(`{"eos_token":"<|endoftext|>"}`), "README.md": []byte("# tiny")}
	for _, name := range []string{"config.json", "model.safetensors"} {
		data, err := os.ReadFile(filepath.Join(tinyModel(), name))
		require.NoError(t, err)
		files[name] = data
	}
	return files
}

// withHub runs the program against a hub on this machine.
func withHub(t testing.TB, hub *hubtest.Hub, home string, args ...string) outcome {
	t.Helper()
	cmd := swarmCommand(t, home, args...)
	cmd.Env = append(cmd.Env, "HF_ENDPOINT="+hub.URL, "HF_HOME="+filepath.Join(home, "hf"), "HF_TOKEN=hf_secret", "HF_HUB_CACHE=", "HF_HUB_OFFLINE=")
	return finish(t, cmd)
}

func TestPulledModelTrains(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	hub := hubtest.New(t, "someone/tiny", tinyFiles(t))
	o := withHub(t, hub, home, "model", "pull", "someone/tiny", "-o", "json")
	require.Zero(t, o.code, o.stderr)
	var result model.Pulled
	require.NoError(t, json.Unmarshal([]byte(o.stdout), &result))
	require.Equal(t, []string{"config.json", "model.safetensors", "tokenizer_config.json"}, result.Files)
	require.Equal(t, 2, result.Shape.Layers)
	for _, r := range hub.Requests() {
		require.Equal(t, r.AtStorage, r.Authorization == "", "the token is for the hub alone: %+v", r)
	}

	again := withHub(t, hub, home, "model", "pull", "someone/tiny")
	require.Zero(t, again.code, again.stderr)
	require.Contains(t, again.stdout, "(0 MB downloaded)")
	require.Contains(t, again.stdout, "Next: swarm up --model "+result.Path)

	listed := withHub(t, hub, home, "model", "list", "-o", "json")
	var rows []model.Listed
	require.NoError(t, json.Unmarshal([]byte(listed.stdout), &rows))
	last := rows[len(rows)-1]
	require.Equal(t, "someone/tiny", last.Name)
	require.Equal(t, "cached", last.State)
	require.Equal(t, result.Bytes, last.Bytes)
	require.Contains(t, withHub(t, hub, home, "model", "show", "someone/tiny").stdout, "parameters  "+units.Group(last.Parameters))

	trained := withHub(t, hub, home, append([]string{"up"}, tinyRun("--model", result.Path, "--rounds", "1", "--name", "pulled")...)...)
	require.Zero(t, trained.code, trained.stderr)
}

func TestPullRefusesInOneLine(t *testing.T) {
	t.Parallel()
	files := tinyFiles(t)
	with := func(config string) map[string][]byte {
		changed := maps.Clone(files)
		changed["config.json"] = []byte(config)
		return changed
	}
	quantized := with(strings.Replace(string(files["config.json"]), "{", `{"quantization_config": {"quant_method": "fp8"}, `, 1))
	classifier := with(`{"model_type": "llama", "architectures": ["LlamaForSequenceClassification"]}`)
	bloom := map[string][]byte{"config.json": []byte(`{"model_type": "bloom"}`), "pytorch_model.bin": {1}}
	pickled := map[string][]byte{"config.json": files["config.json"], "pytorch_model.bin": {1}}
	for name, test := range map[string]struct {
		files     map[string][]byte
		intercept func(http.ResponseWriter, *http.Request, bool) bool
		code      int
		err, try  string
	}{
		"unknown architecture": {with(`{"model_type":"bert"}`), nil, fail.ExitUsage,
			`Error: bad model "someone/tiny" (config.json): allowed: model_type gpt2, llama, qwen2 or qwen3 (it is "bert")`, "Try: swarm model list\n"},
		"unknown architecture, pickled": {bloom, nil, fail.ExitUsage, `allowed: model_type gpt2, llama, qwen2 or qwen3 (it is "bloom")`, "Try: swarm model list\n"},
		"classifier":                    {classifier, nil, fail.ExitUsage, `allowed: architectures LlamaForCausalLM or LlamaModel (it is "LlamaForSequenceClassification")`, "Try: swarm model list\n"},
		"quantized":                     {quantized, nil, fail.ExitUsage, `allowed: no quantization_config (its quant_method is "fp8")`, "Try: the model's repository with unquantized weights\n"},
		"pickled":                       {pickled, nil, fail.ExitFailed, "Error: model someone/tiny has no model.safetensors, only pytorch_model.bin", "Try: a revision that has it"},
		"gated": {files, func(w http.ResponseWriter, r *http.Request, _ bool) bool {
			w.Header().Set("X-Error-Code", "GatedRepo")
			w.WriteHeader(http.StatusUnauthorized)
			return true
		}, fail.ExitFailed, "Error: model someone/tiny is gated: its owners grant access on request", "Try: request access at "},
		"too little access": {files, func(w http.ResponseWriter, r *http.Request, _ bool) bool {
			w.WriteHeader(http.StatusForbidden)
			return true
		}, fail.ExitFailed, "denies access to model someone/tiny with this token", "Try: a token with read access, from "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			hub := hubtest.New(t, "someone/tiny", test.files)
			hub.Intercept(test.intercept)
			o := withHub(t, hub, t.TempDir(), "model", "pull", "someone/tiny")
			require.Equal(t, test.code, o.code, o.stderr)
			require.Contains(t, o.stderr, test.err)
			require.Contains(t, o.stderr, test.try)
			require.LessOrEqual(t, strings.Count(o.stderr, "\n"), 2, o.stderr)
			require.Empty(t, o.stdout)
			for _, r := range hub.Requests() {
				require.False(t, r.AtStorage, "weights were requested")
			}
		})
	}
}

func TestTrainedNodeIsSavedAsAFolder(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	base := filepath.Join(t.TempDir(), "base")
	require.NoError(t, os.Mkdir(base, 0o755))
	for name, data := range tinyFiles(t) {
		require.NoError(t, os.WriteFile(filepath.Join(base, name), data, 0o644))
	}
	run := swarm(t, home, append([]string{"up"}, tinyRun("--model", base, "--rounds", "2", "--name", "base", "--set", "learning_rate=0.01")...)...)
	require.Zero(t, run.code, run.stderr)

	dir := filepath.Join(t.TempDir(), "deep", "trained")
	former := dir + ".old" // where the user may have moved an earlier model
	require.NoError(t, os.MkdirAll(filepath.Join(former, "model"), 0o755))
	o := swarm(t, home, "model", "save", "base", "1", dir, "-o", "json")
	require.Zero(t, o.code, o.stderr)
	require.DirExists(t, filepath.Join(former, "model"))
	var saved recorded.Saved
	require.NoError(t, json.Unmarshal([]byte(o.stdout), &saved))
	require.Equal(t, []string{"config.json", "generation_config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"}, saved.Files)
	for _, name := range []string{"config.json", "generation_config.json"} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		for _, key := range []string{"bos_token_id", "eos_token_id", "pad_token_id"} {
			require.Regexp(t, `"`+key+`": 256\b`, string(text), name)
		}
	}
	settings, err := os.ReadFile(filepath.Join(dir, "tokenizer_config.json"))
	require.NoError(t, err)
	require.Contains(t, string(settings), `"split_special_tokens": true`, "the base's lacks a tokenizer and stays behind")
	require.Equal(t, "base-1", saved.Run)
	require.Equal(t, "node_1", saved.Node)
	require.Equal(t, 2, saved.Rounds)

	// These are the weights of the node's last checkpoint, not the initial ones.
	var manifest struct {
		WeightHash string `json:"weight_hash"`
	}
	text, err := os.ReadFile(filepath.Join(home, "runs", "base-1", "node_1", "checkpoint-00000002.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &manifest))
	require.Equal(t, manifest.WeightHash, saved.WeightHash)
	shape, err := model.Inspect(dir)
	require.NoError(t, err)
	require.Equal(t, saved.Parameters, shape.Parameters)
	before, err := os.ReadFile(filepath.Join(base, "model.safetensors"))
	require.NoError(t, err)
	after, err := os.ReadFile(filepath.Join(dir, "model.safetensors"))
	require.NoError(t, err)
	require.False(t, bytes.Equal(before, after), "nothing was learnt")

	// bfloat16 halves the file.
	half := filepath.Join(t.TempDir(), "half")
	o = swarm(t, home, "model", "save", "base", "1", half, "--dtype", "bfloat16", "-o", "json")
	require.Zero(t, o.code, o.stderr)
	requireHalf(t, home, half, o.stdout, saved)

	// The saved model can be trained further.
	again := swarm(t, home, append([]string{"up"}, tinyRun("--model", dir, "--rounds", "1", "--name", "again")...)...)
	require.Zero(t, again.code, again.stderr)

	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"base", "1", dir}, "is not empty"},
		{[]string{"base", "7", t.TempDir()}, `run base-1 has no node "node_7" here: it has node_0, node_1`},
		{[]string{"base", "../../x", t.TempDir()}, `run base-1 has no node "../../x" here`},
		{[]string{"other", "1", t.TempDir()}, `no run or experiment "other" is recorded`},
		{[]string{"base", "1", t.TempDir(), "--dtype", "int8"}, `bad dtype "int8": allowed: float32, bfloat16 or float16`},
	} {
		o := swarm(t, home, append([]string{"model", "save"}, test.args...)...)
		require.Equal(t, fail.ExitUsage, o.code, o.stderr)
		require.Contains(t, o.stderr, test.want)
	}
}

// requireHalf checks a folder with weights in bfloat16 and the document of the command that wrote it. whole describes
// the same weights in float32. The program reads the folder, and so does the engine.
func requireHalf(t testing.TB, home, dir, document string, whole recorded.Saved) {
	t.Helper()
	var saved recorded.Saved
	require.NoError(t, json.Unmarshal([]byte(document), &saved))
	require.Equal(t, whole.WeightHash, saved.WeightHash)
	require.Equal(t, whole.Files, saved.Files)
	shape, err := model.Inspect(dir)
	require.NoError(t, err)
	require.Equal(t, whole.Parameters, shape.Parameters)
	data, err := os.ReadFile(filepath.Join(dir, "model.safetensors"))
	require.NoError(t, err)
	require.EqualValues(t, saved.Bytes, len(data))
	require.Equal(t, saved.SHA256, fmt.Sprintf("%x", sha256.Sum256(data)))
	require.Less(t, 10*saved.Bytes, 6*whole.Bytes)
	tensors, err := model.ReadHeader(bytes.NewReader(data), int64(len(data)))
	require.NoError(t, err)
	for name, tensor := range tensors {
		require.Equal(t, "BF16", tensor.DType, name)
	}
	config, err := os.ReadFile(filepath.Join(dir, "config.json"))
	require.NoError(t, err)
	require.Contains(t, string(config), `"torch_dtype": "bfloat16"`)
	o := swarm(t, home, "model", "prompt", dir, "1 + 1?", "-n", "1", "--max-completion-length", "4", "--device", "cpu")
	require.Zero(t, o.code, o.stderr)
}

// The best weights of the best node are written, which are those that its validation questions chose.
func TestBestWeightsAreSavedAsAFolder(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	up := append([]string{"up"}, tinyRun("--name", "chosen", "--set", "learning_rate=0.01", "--set", "eval_questions=4", "--set", "eval_every=1")...)
	o := swarm(t, home, append(up, "--rounds", "4", "--validation-questions", "6")...)
	require.Zero(t, o.code, o.stderr)
	var bests []best.Weights
	for _, name := range []string{"node_0", "node_1"} {
		b, err := best.Read(filepath.Join(home, "runs", "chosen-1", name))
		require.NoError(t, err)
		require.Len(t, b.All, 5, "before the first round, and after each")
		bests = append(bests, b)
	}
	require.Equal(t, bests[0].Set, bests[1].Set)
	want, wanted := bests[0], "node_0"
	if bests[1].Judged.Better(bests[0].Judged) {
		want, wanted = bests[1], "node_1"
	}
	dir := filepath.Join(t.TempDir(), "deep", "best")
	o = swarm(t, home, "model", "save", "chosen", dir, "--best", "-o", "json")
	require.Zero(t, o.code, o.stderr)
	var saved recorded.Saved
	require.NoError(t, json.Unmarshal([]byte(o.stdout), &saved))
	require.Equal(t, []any{wanted, want.Round, want.SHA256, want.WeightHash, want.Pass},
		[]any{saved.Node, saved.Rounds, saved.SHA256, saved.WeightHash, *saved.ValidationPass})
	require.Contains(t, saved.Files, "model.safetensors")
	shape, err := model.Inspect(dir)
	require.NoError(t, err)
	require.Equal(t, saved.Parameters, shape.Parameters)
	require.Zero(t, swarm(t, home, append([]string{"up"}, tinyRun("--model", dir, "--rounds", "1", "--name", "again")...)...).code, "it is a model")

	half := filepath.Join(t.TempDir(), "half")
	o = swarm(t, home, "model", "save", "chosen", half, "--best", "--dtype", "bfloat16", "-o", "json")
	require.Zero(t, o.code, o.stderr)
	requireHalf(t, home, half, o.stdout, saved)

	o = swarm(t, home, "model", "save", "chosen", filepath.Join(t.TempDir(), "one"), "--best", "--node", "1")
	require.Zero(t, o.code, o.stderr)
	require.Contains(t, o.stdout, "node_1 of chosen-1 after "+units.Plural(bests[1].Round, "round"))
	require.Contains(t, o.stdout, fmt.Sprintf("by validation: pass@1 %.4f", bests[1].Pass))

	for want, args := range map[string][]string{
		"is not empty":                    {"chosen", dir, "--best"},
		"run again-1: it has kept no":     {"again", t.TempDir(), "--best"},
		"node_0: it has kept no":          {"again", t.TempDir(), "--best", "--node", "0"},
		`has no node "node_7" here`:       {"chosen", t.TempDir(), "--best", "--node", "7"},
		"a run and a folder with --best":  {"chosen", "0", t.TempDir(), "--best"},
		"--node is for --best":            {"chosen", "0", t.TempDir(), "--node", "1"},
		"takes a run, a node and a folde": {"chosen", t.TempDir()},
	} {
		o := swarm(t, home, append([]string{"model", "save"}, args...)...)
		require.NotZero(t, o.code)
		require.Contains(t, o.stderr, want)
		require.Contains(t, o.stderr, "Try: ")
	}
	file := filepath.Join(home, "runs", "chosen-1", wanted, want.Folder, "model.safetensors")
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	data[len(data)-1] ^= 1
	require.NoError(t, os.WriteFile(file, data, 0o644))
	o = swarm(t, home, "model", "save", "chosen", filepath.Join(t.TempDir(), "damaged"), "--best", "--node", wanted)
	require.Equal(t, fail.ExitFailed, o.code)
	require.Contains(t, o.stderr, "the SHA-256 of its best weights is not that of best.json")

	o = swarm(t, home, append(up, "--rounds", "5", "--validation-questions", "4")...)
	require.Zero(t, o.code, o.stderr)
	require.Contains(t, o.stdout+o.stderr, "the validation questions have changed: new best weights will be chosen")
	o = swarm(t, home, "model", "save", "chosen", filepath.Join(t.TempDir(), "other"), "--best", "--node", "1")
	require.Zero(t, o.code, o.stderr)
	former := filepath.Join(home, "runs", "chosen-1", "node_1", bests[1].Folder)
	require.Contains(t, o.stdout, "Earlier best weights are in "+former+"\n")
	require.FileExists(t, filepath.Join(former, "model.safetensors"))
}

func TestMissingModelIsDownloadedAfterAYes(t *testing.T) {
	files := tinyFiles(t)
	gpt2, err := configs.LoadModel("gpt2")
	require.NoError(t, err)
	for _, test := range []struct {
		name, answer   string
		terminal, yes  bool
		asked, fetched bool
	}{
		{"yes on a terminal", "y\n", true, false, true, true},
		{"no on a terminal", "\n", true, false, true, false},
		{"something else", "maybe\n", true, false, true, false},
		{"not a terminal", "y\n", false, false, false, false},
		{"agreed before", "", false, true, false, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			hub := hubtest.New(t, "openai-community/gpt2", files)
			t.Setenv("HF_ENDPOINT", hub.URL)
			t.Setenv("HF_HOME", t.TempDir())
			t.Setenv("HF_HUB_CACHE", "")
			var shown bytes.Buffer
			g := &globals{home: layout.Home(t.TempDir()), stdin: strings.NewReader(test.answer), stderr: &shown}
			var screen chan []byte
			if test.terminal {
				ours, theirs := openTerminal(t)
				_, err := io.WriteString(ours, test.answer)
				require.NoError(t, err)
				g.stdin, g.stderr = theirs, theirs
				screen = make(chan []byte, 1)
				go func() { // drains the terminal until its other end is closed
					text, _ := io.ReadAll(ours)
					screen <- text
				}()
			}
			dir, err := model.Ensure(t.Context(), gpt2, t.TempDir(), g.stdin, g.stderr, test.yes)
			text := shown.Bytes()
			if test.terminal {
				require.NoError(t, g.stdin.(*os.File).Close())
				text = <-screen
			}
			question := "Download openai-community/gpt2 (548 MB) from " + strings.TrimPrefix(hub.URL, "http://") + "? [y/N] "
			require.Equal(t, test.asked, strings.Contains(string(text), question), "%s", text)
			if test.fetched {
				require.NoError(t, err)
				require.FileExists(t, filepath.Join(dir, "model.safetensors"))
				return
			}
			var missing *model.MissingError
			require.True(t, errors.As(err, &missing), "%v", err)
			require.Empty(t, hub.Requests())
		})
	}
}
