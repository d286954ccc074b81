package main

import (
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/launcher/fit"
	"github.com/sapo-swarm/swarm/launcher/launch"
)

// noDriver is the message on a machine without a GPU. These tests hide any real GPU.
const noDriver = "no NVIDIA driver on this machine (libnvidia-ml.so.1 not found)"

const tryPython = "make setup, or apt-get install python3-torch libopenblas0, or --python /path/to/a/python3 that has torch; swarm doctor shows details"

// Each refusal is one Error: line, one Try: line unless "allowed" has the remedy, and the right exit code. It leaves
// no run, no run folder and no process. FOLDER stands for a folder with the cases' files, HOME for --home.
func TestRefusals(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	brokenModels(t, folder)
	for name, text := range map[string]string{
		"key.yaml": "rounds: 3\nlearning_rat: 0.1\n", "items.jsonl": `{"question":"q","answer":"a","metadata":{}}` + "\n{\n",
		"few.jsonl": `{"question":"q","answer":"a","metadata":{}}` + "\n",
	} {
		writeFile(t, filepath.Join(folder, name), text)
	}
	python := filepath.Join(folder, "python-without-torch")
	require.NoError(t, os.WriteFile(python, []byte("#!/bin/sh\necho \"ModuleNotFoundError: No module named 'torch'\" >&2\nexit 1\n"), 0o755))
	nowhere := "SWARM_NVML_LIBRARY=" + filepath.Join(folder, "libnvidia-ml.so.1")
	const modelTry = "--model DIR with the config.json and model.safetensors of a gpt2, llama, qwen2 or qwen3"

	tests := []struct {
		name, args string
		code       int
		err, try   string
		environ    string
	}{
		{name: "preset", args: "up --config 5loc5ext", code: 2, err: `unknown config "5loc5ext": allowed: 8loc0ext, 6loc2ext, 4loc4ext, 2loc6ext, adaptive, adaptive-ema, or a YAML file`},
		{name: "flag", args: "up --frobnicate", code: 2, err: "unknown flag: --frobnicate", try: "swarm up --help"},
		{name: "command", args: "frobnicate", code: 2, err: `unknown command "frobnicate"`, try: "swarm --help"},
		{name: "two configurations", args: "up 4loc4ext --config 8loc0ext", code: 2, err: `the argument "4loc4ext" and --config 8loc0ext name two configurations`, try: "one of them"},
		{name: "no nodes", args: "up --nodes 0", code: 2, err: `bad request: nodes "0": allowed: auto, max or a number from 1`, try: "swarm plan --help"},
		{name: "two ways", args: "up --listen :0 --shared FOLDER", code: 2, err: "--listen, --nats and --shared exclude each other", try: "one of them"},
		{name: "advertise alone", args: "up --advertise me", code: 2, err: "--advertise, --tls-cert and --tls-key need --listen", try: "--listen :4222"},
		{name: "half a certificate", args: "up --listen :0 --tls-cert a", code: 2, err: "--tls-cert and --tls-key must be given together", try: "both, or neither for a self-signed certificate"},
		{name: "credentials alone", args: "up --nats-creds a", code: 2, err: "--nats-creds needs --nats", try: "--nats URL"},
		{name: "compat alone", args: "up --compat", code: 2, err: "--compat needs --shared", try: "--shared DIR"},
		{name: "a lag among hosts", args: "up --listen :0 --external-lag 2", code: 2, err: `bad external_lag "2": allowed: 0 if others may join (--listen, --nats, --shared)`},
		{name: "a lag among others' hosts", args: "up --listen :0 --nodes 0 --external-lag 2", code: 2, err: `bad external_lag "2": allowed: 0 if others may join (--listen, --nats, --shared)`},
		{name: "listen", args: "up --listen a:b:c", code: 2, err: `bad listen "a:b:c" (--listen): allowed: host:port, :port or host`},
		{name: "shared", args: "up --shared FOLDER/none", code: 2, err: `bad shared "FOLDER/none" (--shared): allowed: an existing folder; mount it first`},
		{name: "join what", args: "join", code: 2, err: "join needs an invitation", try: "the command that `swarm up --listen` printed, or --shared DIR"},
		{name: "two invitations", args: "join a b", code: 2, err: "one invitation, not 2", try: "put it in quotes, because # begins a comment in a shell"},
		{name: "no invitation", args: "join http://a:1", code: 2, err: "the argument is not an invitation: invitation: it does not begin with tls:// or nats://", try: "copy the whole line that swarm up printed, in quotes"},
		{name: "no invitation in a file", args: "join --url-file FOLDER/key.yaml", code: 2, err: "FOLDER/key.yaml is not an invitation: invitation: it does not begin with tls:// or nats://", try: "copy the whole line that swarm up printed, in quotes"},
		{name: "both ways", args: "join tls://a:1#b --shared FOLDER", code: 2, err: "an invitation and --shared exclude each other", try: "one of them"},
		{name: "a folder of what", args: "join --shared FOLDER", code: 2, err: "--shared needs the experiment's name", try: "--experiment NAME, a folder in FOLDER"},
		{name: "the coordinator's key", args: "join tls://a:1#b --learning-rate 1", code: 2, err: "unknown flag: --learning-rate", try: "swarm join --help"},
		{name: "nobody let in", args: "workers ban anna", code: 2, err: "no worker has been admitted yet: there is no list of workers under HOME", try: "swarm up --listen :4222"},
		{name: "ban whom", args: "workers ban", code: 2, err: "name one worker", try: "swarm workers, which lists their names"},
		{name: "too many nodes", args: "up --nodes 9", code: 2, err: "bad request: 9 nodes requested, but the experiment's swarm_size is 8", try: "--nodes 8, or a larger swarm_size"},
		{name: "nodes in words", args: "up --nodes abc", code: 2, err: `bad request: nodes "abc": allowed: auto, max or a number from 1`, try: "swarm plan --help"},
		{name: "rounds in words", args: "up --rounds many", code: 2, err: `bad rounds "many" (--rounds): allowed: a whole number from 1 to 10000000`},
		{name: "device", args: "up --device tpu", code: 2, err: `bad device "tpu" (--device): allowed: auto, cpu, cuda, cuda:N`},
		{name: "output", args: "up -o yaml", code: 2, err: `bad output "yaml": allowed: text or json`},
		{name: "no GPU", args: "up --device cuda", code: 3, err: "does not fit: no usable GPU: " + noDriver, try: "install the NVIDIA driver, or --device cpu", environ: nowhere},
		{name: "MPS without a GPU", args: "up --share mps --device auto", code: 3, err: "does not fit: share mps needs a GPU (" + noDriver + ")", try: "install the NVIDIA driver, or --share auto", environ: nowhere},
		{name: "MPS on the CPU for want of a GPU", args: "up --share mps --device cuda", code: 3, err: "does not fit: no usable GPU: " + noDriver, try: "install the NVIDIA driver, or --device cpu --share auto", environ: nowhere},
		{name: "MPS without a GPU for a large model", args: "up --share mps --device auto --model gpt2", code: 3, err: "does not fit: gpt2 needs a GPU (" + noDriver + ")", try: "install the NVIDIA driver, --model nano --share auto, or --device cpu --share auto if a very long run is acceptable", environ: nowhere},
		{name: "no GPU of that number", args: "up --device cuda:1", code: 3, err: "does not fit: there is no GPU 1 among the 0 found", try: "swarm doctor", environ: nowhere},
		{name: "a model that needs one", args: "up --model gpt2 --device auto", code: 3, err: "does not fit: gpt2 needs a GPU (" + noDriver + ")", try: "install the NVIDIA driver, --model nano, or --device cpu if a very long run is acceptable", environ: nowhere},
		{name: "json errors are text too", args: "up -o json --rounds many", code: 2, err: `bad rounds "many" (--rounds): allowed: a whole number from 1 to 10000000`},
		{name: "model folder missing", args: "up --model FOLDER/none", code: 2, err: `unknown model "FOLDER/none" (--model): allowed: gpt2, gpt2-medium, llama-3.2-1b-instruct, micro, nano, qwen2.5-0.5b-instruct, qwen3-0.6b, smollm2-135m-instruct, smollm2-360m-instruct, or a folder with config.json and *.safetensors`},
		{name: "weights missing", args: "up --model FOLDER/bare", code: 1, err: "model: FOLDER/bare has no model.safetensors", try: modelTry},
		{name: "weights cut off", args: "up --model FOLDER/short", code: 1, err: "model: FOLDER/short/model.safetensors: truncated: the tensors take 142976 bytes, but the file has 50000", try: modelTry},
		{name: "weights beyond the end", args: "up --model FOLDER/beyond", code: 1, err: "model: FOLDER/beyond/model.safetensors: truncated: the tensors take 200 bytes, but the file has 20", try: modelTry},
		{name: "python without torch", args: "up --python FOLDER/python-without-torch", code: 1, err: "no Python with PyTorch found: FOLDER/python-without-torch (--python): ModuleNotFoundError: No module named 'torch'", try: tryPython},
		{name: "no such python", args: "up --python FOLDER/none", code: 1, err: "no Python with PyTorch found: FOLDER/none (--python): no such program", try: tryPython},
		{name: "unknown key", args: "up --config FOLDER/key.yaml", code: 2, err: `unknown key "learning_rat" (FOLDER/key.yaml:2): did you mean "learning_rate"?`},
		{name: "no such YAML", args: "up --config FOLDER/none.yaml", code: 2, err: `cannot read config file "FOLDER/none.yaml": no such file or directory`},
		{name: "no such items", args: "up --set tasks.file=FOLDER/none", code: 2, err: `bad tasks.file "FOLDER/none" (--set): allowed: a readable file`},
		{name: "bad item", args: "up --set tasks.file=FOLDER/items.jsonl", code: 2, err: `bad tasks.file "FOLDER/items.jsonl": allowed: a file of JSON lines with question, answer and metadata: line 2: read item: unexpected end of JSON input`},
		{name: "few items", args: "up --set tasks.file=FOLDER/few.jsonl", code: 2, err: `bad tasks.file "FOLDER/few.jsonl": allowed: of 1 items, 1 are for training and 0 held out: at least 2 of each are needed, and about one in 16 is held out by its content. Use about 100 items or more`},
		{name: "home is below a file", args: "--home FOLDER/key.yaml/home up", code: 1, err: "cannot write under FOLDER/key.yaml/home: mkdir FOLDER/key.yaml: not a directory", try: "another --home, or fix the folder's permissions"},
		{name: "status of an empty home", args: "status -o json", code: 1, err: "nothing has run under HOME yet", try: "swarm up --config 4loc4ext, or another --home"},
		{name: "compare of an empty home", args: "compare", code: 1, err: "nothing has run under HOME yet", try: "swarm up --config 4loc4ext, or another --home"},
		{name: "gpu memory", args: "plan --gpu-memory lots", code: 2, err: `bad gpu-memory "lots": allowed: a size such as 40GB, 24576MiB or 512MB; a number without a unit is GB, up to 4096`},
		{name: "gpu memory in MiB without a unit", args: "plan --gpu-memory 24576", code: 2, err: `bad gpu-memory "24576": allowed: a size such as 40GB, 24576MiB or 512MB; a number without a unit is GB, up to 4096`},
		{name: "empty gpu memory", args: "plan --gpu-memory=", code: 2, err: `bad gpu-memory "": allowed: a size such as 40GB, 24576MiB or 512MB; a number without a unit is GB, up to 4096`},
		{name: "sizes that no round has", args: "profile --model MODEL --device cpu --sizes 1,100000", code: 2, err: `bad sizes "1,100000": allowed: numbers from 1 to 64, the sequences of a round; at least two different numbers must not exceed its 64 completions`},
		{name: "one size", args: "profile --model MODEL --device cpu --sizes 4,4", code: 2, err: `bad sizes "4,4": allowed: numbers from 1 to 64, the sequences of a round; at least two different numbers must not exceed its 64 completions`},
		{name: "empty nodes", args: "plan --nodes=", code: 2, err: `bad nodes "" (--nodes): allowed: auto, max or a whole number from 1`},
		{name: "empty experiment", args: "up --experiment=", code: 2, err: `bad experiment "" (--experiment): allowed: a value that is not empty`},
		{name: "empty name", args: "up --name=", code: 2, err: `bad name "" (--name): allowed: a value that is not empty`},
		{name: "empty model", args: "up --model=", code: 2, err: `bad model "" (--model): allowed: a value that is not empty`},
		{name: "empty config", args: "up --config=", code: 2, err: `bad config "" (--config): allowed: a value that is not empty`},
		{name: "empty price", args: "up --price=", code: 2, err: `bad price "" (--price): allowed: a value that is not empty`},
		{name: "empty home", args: "ls --home=", code: 2, err: `bad home "" (--home): allowed: a value that is not empty`},
		{name: "empty seeds", args: "sweep 4loc4ext --seeds=", code: 2, err: `bad seeds "" (--seeds): allowed: a value that is not empty`},
		{name: "pretrain into a folder with files", args: "pretrain --model nano --out FOLDER", code: 2, err: "folder FOLDER is not empty", try: "another folder"},
		{name: "all and a limit", args: "ls --all -n 3", code: 2, err: "--all and --limit exclude each other", try: "one of them"},
		{name: "completion of an unknown shell", args: "completion foo", code: 2, err: `unknown command "foo" for swarm completion`, try: "swarm completion --help"},
		{name: "completion with an argument", args: "completion bash extra", code: 2, err: `swarm completion bash takes no argument "extra"`, try: "swarm completion bash --help"},
		{name: "help on an unknown command", args: "help nope", code: 2, err: `unknown command "nope"`, try: "swarm --help"},
		{name: "help on an unknown subcommand", args: "help model sve", code: 2, err: `unknown command "sve" for swarm model: did you mean "save"?`, try: "swarm model save --help"},
		{name: "gate of an empty home", args: "compare --gate", code: 2, err: "nothing has run under HOME yet", try: "swarm up --config 4loc4ext, or another --home"},
		{name: "tune without a folder", args: "tune --gpu-memory 24 --dir FOLDER/none", code: 2, err: `bad dir "FOLDER/none": allowed: a folder`},
		{name: "plan of a study and a configuration", args: "plan --study paper nonsense", code: 2, err: `plan --study plans the whole study and takes no argument "nonsense"`, try: "swarm plan --study paper, or swarm sweep --study with the experiments and --dry-run"},
		{name: "plan with a price", args: "plan --price 1", code: 2, err: "--price needs --study", try: "swarm plan --study paper --price 1.29/h"},
		{name: "sweep of seeds and a seed", args: "sweep 4loc4ext --seeds 1,2 --seed 3 --dry-run", code: 2, err: "--seed and a list of --seeds exclude each other: --seeds 1,2 names the seeds", try: "one of them"},
		{name: "prune keeps a negative number", args: "prune --keep -1 --older-than 1m", code: 2, err: `bad keep "-1" (--keep): allowed: 0 or more`},
		{name: "prune keeps a smaller number", args: "prune --keep -2", code: 2, err: `bad keep "-2" (--keep): allowed: 0 or more`},
		{name: "evaluate a negative round", args: "eval RUN --node node_0 --round -1", code: 2, err: `bad round "-1": allowed: a whole number from 0`},
		{name: "task", args: "task sample nosuch", code: 2, err: `unknown task "nosuch": allowed: arc_1d, basic_arithmetic, base_conversion, bf, binary_matrix, calendar_arithmetic, decimal_arithmetic, fraction_simplification, propositional_logic`, try: "swarm task list"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			home := filepath.Join(t.TempDir(), "home")
			fill := strings.NewReplacer("FOLDER", folder, "HOME", home, "MODEL", tinyModel())
			args := strings.Fields(fill.Replace(tt.args))
			if args[0] == "up" {
				// The last of repeated flags wins.
				args = append([]string{"up", "--model", tinyModel(), "--device", "cpu"}, args[1:]...)
			}
			cmd := swarmCommand(t, home, args...)
			cmd.Env = append(cmd.Env, marker(home))
			if tt.environ != "" {
				cmd.Env = append(cmd.Env, tt.environ)
			}
			o := finish(t, cmd)
			want := "Error: " + tt.err + "\n"
			if tt.try != "" {
				want += "Try: " + tt.try + "\n"
			}
			require.Equal(t, fill.Replace(want), o.stderr)
			require.Equal(t, tt.code, o.code)
			require.Empty(t, o.stdout)
			requireNothingBegun(t, home)
		})
	}
}

// Names of workers that do not exist are invalid usage, and a failed up leaves no invitation.
func TestRefusesUnknownWorkers(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	o := swarm(t, home, append([]string{"up", "--listen", "203.0.113.1:0"}, tinyRun()...)...)
	require.Equal(t, 1, o.code, o.stderr)
	o = swarm(t, home, append([]string{"up", "--nats", "foo"}, tinyRun()...)...)
	require.Equal(t, 2, o.code)
	require.Equal(t, "Error: use the NATS cluster: an address that does not begin with tls:// or nats://\nTry: --nats nats://host:4222,nats://host:4222\n", o.stderr)
	require.Equal(t, outcome{0, "No run is recorded.\n", ""}, swarm(t, home, "workers"))
	for _, verb := range []string{"ban", "unban", "revoke"} {
		o := swarm(t, home, "workers", verb, "nope")
		require.Equal(t, outcome{2, "", "Error: there is no worker \"nope\"\nTry: swarm workers, which lists their names\n"}, o)
	}
}

// Text is ASCII in a locale of another character set: help, errors, samples of tasks and summaries.
func TestASCIIWithoutUTF8(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	first := swarm(t, home, append([]string{"up", "--rounds", "1"}, tinyRun()...)...)
	require.Equal(t, 0, first.code, first.stderr)
	for _, args := range []string{"compare --help", "curve --help", "join --help", "run --help", "up --help-all", "task sample propositional_logic -n 2",
		"resume 4loc4ext", "plan --config 4lœc"} {
		cmd := swarmCommand(t, home, strings.Fields(args)...)
		cmd.Env = append(cmd.Env, "LC_ALL=C")
		o := finish(t, cmd)
		for _, r := range o.stdout + o.stderr {
			require.Less(t, r, rune(0x80), "%s: %s%s", args, o.stdout, o.stderr)
		}
	}
}

// requireNothingBegun fails if a home has a run, or if a process of one still runs.
func requireNothingBegun(t *testing.T, home string) {
	t.Helper()
	require.NoDirExists(t, filepath.Join(home, "runs"))
	require.NoFileExists(t, filepath.Join(home, "swarm.db"))
	require.Empty(t, processes(home))
}

// brokenModels puts model directories into folder, each with one fault.
func brokenModels(t *testing.T, folder string) {
	t.Helper()
	config, err := os.ReadFile(filepath.Join(tinyModel(), "config.json"))
	require.NoError(t, err)
	weights, err := os.ReadFile(filepath.Join(tinyModel(), "model.safetensors"))
	require.NoError(t, err)
	header := `{"wte.weight": {"dtype": "F32", "shape": [50], "data_offsets": [0, 200]}}`
	data := 142976 // bytes of the tiny model's tensors
	for name, content := range map[string]string{
		"bare": "", "short": string(weights[:len(weights)-data+50000]),
		"beyond": string([]byte{byte(len(header)), 0, 0, 0, 0, 0, 0, 0}) + header + strings.Repeat("\x00", 20),
	} {
		dir := filepath.Join(folder, name)
		require.NoError(t, os.Mkdir(dir, 0o755))
		writeFile(t, filepath.Join(dir, "config.json"), string(config))
		if content != "" {
			writeFile(t, filepath.Join(dir, "model.safetensors"), content)
		}
	}
}

func TestRefusesReadOnlyHome(t *testing.T) {
	t.Parallel()
	dir := mount(t, syscall.MS_RDONLY, "")
	home := filepath.Join(dir, "home")
	o := swarm(t, home, append([]string{"up"}, tinyRun()...)...)
	require.Equal(t, "Error: cannot write under "+home+": mkdir "+home+": read-only file system\nTry: --home on a writable disk\n", o.stderr)
	require.Equal(t, 1, o.code)
}

func TestRefusesSmallDisk(t *testing.T) {
	t.Parallel()
	home := mount(t, 0, "size=1m")
	o := swarm(t, home, append([]string{"up"}, tinyRun()...)...)
	require.Equal(t, 1, o.code)
	require.Regexp(t, `^Error: \S+ has 1 MB free, but the checkpoints, journals and logs of 2 nodes of tiny take 212 MB
Try: free some space, or --home on a larger disk\n$`, o.stderr)
	requireNothingBegun(t, home)

	require.ErrorIs(t, os.WriteFile(filepath.Join(home, "full"), make([]byte, 2<<20), 0o600), syscall.ENOSPC)
	o = swarm(t, home, append([]string{"up", "--name", "other"}, tinyRun()...)...)
	require.Equal(t, 1, o.code)
	require.Regexp(t, `^Error: cannot write under \S+: write \S+: no space left on device\nTry: free some space, or put --home on another disk\n$`, o.stderr)
	requireNothingBegun(t, home)
}

func TestRefusesDatabaseOfANewerVersion(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	path := filepath.Join(home, "swarm.db")
	db, err := sql.Open("sqlite3", path)
	require.NoError(t, err)
	// 0x5357524D, SWRM, is the application id of our databases.
	_, err = db.Exec("PRAGMA application_id = 1398231629; PRAGMA user_version = 999; CREATE TABLE future (x); INSERT INTO future VALUES (7)")
	require.NoError(t, err)
	require.NoError(t, db.Close())
	before, err := os.ReadFile(path)
	require.NoError(t, err)
	for _, args := range [][]string{{"status"}, {"compare"}, append([]string{"up"}, tinyRun()...)} {
		o := swarm(t, home, args...)
		require.Equal(t, 1, o.code, args)
		require.Regexp(t, `^Error: database \S+: written by a newer swarm \(schema 999, this one knows \d+\)\nTry: [^\n]+\n$`, o.stderr)
		require.Empty(t, o.stdout)
	}
	after, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, before, after, "the database was changed")
	require.NoDirExists(t, filepath.Join(home, "runs"))
}

func TestErrorText(t *testing.T) {
	for _, tt := range []struct{ text, what, try string }{
		{"broken", "broken", ""},
		{"broken. Try: mend it", "broken", "mend it"},
		{"x needs y (no z. Try: get z). Try: another x", "x needs y (no z)", "another x"},
		{"a (b. Try: c) d. Try: e (f)", "a (b) d", "e (f)"},
	} {
		what, try := fail.SplitRemedy(tt.text)
		require.Equal(t, tt.what, what)
		require.Equal(t, tt.try, try)
	}
	var out strings.Builder
	report(&out, errors.Join(errors.New("one"), fail.Hint(errors.New("two\nlines"), "this")))
	require.Equal(t, "Error: one; two; lines\nTry: this\n", out.String())
}

func TestExitCodes(t *testing.T) {
	for code, err := range map[int]error{
		fail.ExitFailed: &launch.LostError{GivenUp: make([]launch.NodeResult, 2)}, // no node is left
		fail.ExitLost:   fmt.Errorf("run: %w", &launch.LostError{GivenUp: make([]launch.NodeResult, 2), Remaining: 6}),
		fail.ExitUsage:  fmt.Errorf("plan: %w", &configs.Error{}),
		fail.ExitNoRoom: fail.Hint(fit.ErrDoesNotFit, "less"),
		130:             errors.Join(errors.New("summary"), fail.Exit(130)),
	} {
		require.Equal(t, code, exitCode(err), "%v", err)
	}
}
