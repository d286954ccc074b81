package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/stretchr/testify/require"
)

// The guides' workflows with swarm's commands. Trainings and their host memory shortages are real. GPUs and torch's
// messages about them are fake.

// Guide 0: the fork's file gets the formula's batch size and the guide's options, comments stay, and the variables
// are set.
func TestGuide0IsCarriedOut(t *testing.T) {
	t.Parallel()
	home, dir := t.TempDir(), t.TempDir()
	path := filepath.Join(dir, "rgym_exp", "config", "rg-swarm.yaml")
	const before = `training:
  fp16: false  # about 50 % less memory
  gradient_checkpointing: false
  gradient_accumulation_steps: 4  # increase for lower memory usage
  clear_cache_every_n_rounds: 0
  auto_batch_size: false
game_manager:
  data_manager:
    num_train_samples: 2  # start with 1
`
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, []byte(before), 0o600))
	d := tuneJSON(t, home, "--gpu-memory", "24", "--dir", dir, "--apply")
	require.Equal(t, "rl-swarm", d.Workload, "the folder's files say whose it is")
	require.Equal(t, 5, d.Batch, "(24 - 2) / (1.5 x 2.5)")
	after, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, strings.NewReplacer("gradient_checkpointing: false", "gradient_checkpointing: true", "n_rounds: 0", "n_rounds: 10",
		"auto_batch_size: false", "auto_batch_size: true", "num_train_samples: 2", "num_train_samples: 5",
		"accumulation_steps: 4", "accumulation_steps: "+strconv.Itoa(d.Accumulate)).Replace(before), string(after))

	// The fork's start script, run by swarm on a fake GPU with a fake memory limit: half of the samples if there are
	// too many.
	const script = `grep -o 'num_train_samples: [0-9]*' rgym_exp/config/rg-swarm.yaml; echo "$PYTORCH_CUDA_ALLOC_CONF $CUDA_LAUNCH_BLOCKING"
case $1 in 8|4) echo "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB." >&2; exit 1;; esac`
	cmd := withGPUs(t, runIn(t, home, dir, "--batch-size", "8", "--min-batch-size", "1",
		"--set", "rgym_exp/config/rg-swarm.yaml:game_manager.data_manager.num_train_samples={batch_size}",
		"--", "sh", "-c", script, "sh", "{batch_size}"), t4)
	cmd.Env = append(cmd.Env, "CUDA_LAUNCH_BLOCKING=0")
	got := finish(t, cmd)
	require.Zero(t, got.code, got.stderr)
	const variables = "\nmax_split_size_mb:512 0\n"
	require.Equal(t, "num_train_samples: 8"+variables+"num_train_samples: 4"+variables+"num_train_samples: 2"+variables, got.stdout)
	require.Zero(t, swarm(t, home, "tune", "--undo", "--dir", dir).code)
	now, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, before, string(now))
}

// Guide 1's story on a CPU: the script really runs out of memory, doctor explains its log, the guide's edits are
// made, and the job succeeds within the same memory.
func TestGuide1IsCarriedOut(t *testing.T) {
	t.Parallel()
	home, dir := t.TempDir(), project(t)
	python := torchPython(t)
	grpo := func(args ...string) outcome {
		cmd := runIn(t, home, dir, args...)
		cmd.Env = append(cmd.Env, "TRAIN_MEMORY_MB=80", "PYTHON="+python)
		return finish(t, cmd)
	}
	got := grpo("--cpu", "only", "--name", "grpo", "--", "bash", "submit_grpo.slurm")
	require.Equal(t, fail.ExitFailed, got.code, got.stderr)
	require.Contains(t, got.stderr, "put {batch_size} into the command", "without a place nothing can be tried")
	o := swarm(t, home, "doctor", "--oom", jobDocument(t, home, "grpo").Log, "--dir", dir)
	require.Zero(t, o.code, o.stderr)
	require.Contains(t, o.stdout, "Host memory ran out")
	require.Contains(t, o.stdout, "Workload verl-grpo: a guess, from ")

	// As on a GPU: the message is fake, the explanation is real.
	got = grpo("--cpu", "only", "--name", "words", "--", "bash", "run_grpo.sh", "--fake-cuda-oom")
	require.Equal(t, fail.ExitFailed, got.code, got.stderr)
	o = swarm(t, home, "doctor", "--oom", jobDocument(t, home, "words").Log, "--dir", dir)
	require.Zero(t, o.code, o.stderr)
	for _, want := range []string{
		"17.66 GiB  (19.0 GB)", "Workload verl-grpo", "train_batch_size: 1024 -> 512  run_grpo.sh:data.train_batch_size (line 12)",
		"param_offload: False -> True", "train_batch_size: 512 -> 256", "gpu_memory_utilization: 0.6 -> 0.4", "max_response_length: 1024 -> 512",
		"gres: gpu:4 -> gpu:8  submit_grpo.slurm:#SBATCH --gres (line 3)", "30 to 50 % slower",
	} {
		require.Contains(t, o.stdout, want)
	}

	script := filepath.Join(dir, "run_grpo.sh")
	before, err := os.ReadFile(script)
	require.NoError(t, err)
	d := tuneJSON(t, home, "--workload", "verl-grpo", "--gpu-memory", "79.18GiB", "--dir", dir, "--apply")
	require.True(t, d.Edits.Applied)
	require.EqualValues(t, 50<<30, d.ExpectedBytes)
	got = grpo("--cpu", "only", "--", "bash", "submit_grpo.slurm")
	require.Zero(t, got.code, got.stderr)
	require.Contains(t, got.stdout, "micro_batch=16 effective_batch=128")
	require.Contains(t, got.stdout, "fsdp_config.param_offload=True")
	require.Zero(t, swarm(t, home, "tune", "--undo", "--dir", dir).code)
	after, err := os.ReadFile(script)
	require.NoError(t, err)
	require.Equal(t, string(before), string(after))

	// Without a profile: only the micro-batch is halved until it fits.
	got = grpo("--cpu", "only", "--name", "halved", "--set", "run_grpo.sh:actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu={batch_size}",
		"--", "bash", "run_grpo.sh")
	require.Zero(t, got.code, got.stderr)
	require.Greater(t, len(jobDocument(t, home, "halved").Attempts), 1)
	require.Contains(t, got.stdout, "effective_batch=256\n", "the mini-batch, which is the optimizer's, stays")
}

// Guide 2 on a CPU: a training with too large settings really runs out of memory. It fits with the recommendation
// applied, and the files are restored.
func TestGuide2IsCarriedOut(t *testing.T) {
	t.Parallel()
	home, dir := t.TempDir(), project(t)
	python := torchPython(t)
	const memory = "TRAIN_MEMORY_MB=56"
	train := func(args ...string) outcome {
		cmd := runIn(t, home, dir, append(append([]string{"--cpu", "only"}, args...), "--", python, "train_contrastive.py", "--stage", "01")...)
		cmd.Env = append(cmd.Env, memory)
		return finish(t, cmd)
	}
	path := filepath.Join(dir, "conf", "config.yaml")
	before, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, fail.ExitFailed, train("--name", "large").code)
	o := swarm(t, home, "doctor", "--oom", jobDocument(t, home, "large").Log, "--dir", dir, "--workload", "naics-embedder")
	require.Regexp(t, `batch_size +128 +line \d+ of the log`, o.stdout, o.stderr)

	d := tuneJSON(t, home, "--workload", "naics-embedder", "--gpu-memory", "24", "--dir", dir, "--apply")
	require.Equal(t, []int{45, 5}, []int{d.Batch, d.Accumulate})
	require.Contains(t, strings.Join(d.Advice, "\n"), "padding: max_length")
	got := train()
	require.Zero(t, got.code, got.stderr)
	require.Contains(t, got.stdout, "batch_size=45 accumulate=5 effective_batch=225 n_positives=32 n_negatives=24")
	require.Zero(t, swarm(t, home, "tune", "--undo", "--dir", dir).code)

	// Automatically, from 128 x 2, in the files while it runs.
	got = train("--set", "conf/config.yaml:data_loader.batch_size={batch_size}",
		"--set", "conf/config.yaml:training.trainer.accumulate_grad_batches={accumulate}")
	require.Zero(t, got.code, got.stderr)
	require.Contains(t, got.stdout, "batch_size=64 accumulate=4 effective_batch=256")
	after, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(before), string(after))
}

// The options of guide 2's program in swarm, and the effect of each.
func TestGuide2sOptionsChangeTheAnswer(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	for _, tt := range []struct {
		args string
		want []int // batch, accumulation, effective batch
	}{
		{"--gpu-memory 24", []int{45, 5, 225}},
		{"--gpu-memory 24 --safety-margin 0.75", []int{40, 6, 240}},
		{"--gpu-memory 24 --target-effective-batch 512", []int{46, 11, 506}},
		{"--gpu-memory 24 --target-effective-batch 128", []int{46, 2, 92}},
		{"--gpu-memory 24 --devices 2", []int{46, 2, 184}},
		{"--gpu-memory 80 --set n_negatives=32", []int{128, 2, 256}},
	} {
		d := tuneJSON(t, home, append([]string{"--workload", "naics-embedder"}, strings.Fields(tt.args)...)...)
		require.Equal(t, tt.want, []int{d.Batch, d.Accumulate, d.EffectiveBatch}, tt.args)
		require.True(t, d.Fits, tt.args)
	}
}

// Guide 4's problem with protobuf's Python package can't occur: none of our code imports it.
func TestNothingImportsProtobufInPython(t *testing.T) {
	imports := regexp.MustCompile(`(?m)^\s*(import|from)\s+google\b`)
	files := 0
	for _, folder := range []string{"../../node/policy/engine", "../../notebooks-bridge"} {
		require.NoError(t, filepath.WalkDir(folder, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || filepath.Ext(path) != ".py" {
				return err
			}
			files++
			text, err := os.ReadFile(path)
			require.False(t, imports.Match(text), path)
			return err
		}))
	}
	require.Greater(t, files, 20)
}

// Guide 3's preset (configs/robust.yaml) equals the defaults of swarm run.
func TestGuide3sPresetIsTheDefault(t *testing.T) {
	t.Parallel()
	f := newRunCommand(&globals{}).Flags()
	for name, want := range map[string]string{"gpu-check-interval": "30s", "min-batch-size": "4", "max-retries": "3", "accumulate": "1", "cpu": "never"} {
		require.Equal(t, want, f.Lookup(name).DefValue, name)
	}
	got := finish(t, withGPUs(t, runIn(t, t.TempDir(), t.TempDir(), "--", "true"), "Tesla T4:15360:3800"))
	require.Equal(t, fail.ExitNoRoom, got.code, "3.98 GB are less than 4")
	got = finish(t, withGPUs(t, runIn(t, t.TempDir(), t.TempDir(), "--", "true"), "Tesla T4:15360:3900"))
	require.Zero(t, got.code, got.stderr)
}

// Guide 3's scenarios 2 to 4, and its advice on a batch of 1. TestJobsShareAGPU covers scenario 1. GPUs and their
// messages are fake.
func TestGuide3sScenarios(t *testing.T) {
	t.Parallel()
	home, dir := t.TempDir(), project(t)
	python := torchPython(t)
	const three = "Tesla T4:15360:15000:proc=none;Tesla T4:15360:14000:proc=none;Tesla T4:15360:9000:proc=none"
	batch := []string{"training.batch_size={batch_size}", "training.gradient_accumulation_steps={accumulate}"}
	const fits = `echo "$@"; case "$*" in *batch_size=4*checkpointing=true*) exit 0;; esac
exec "$1" -c 'import switches, sys; print(switches.FAKE, file=sys.stderr); sys.exit(1)'`
	robust := append([]string{"--max-retries", "5", "--min-batch-size", "4", "--batch-size", "32", "--name", "robust", "--", "sh", "-c", fits, "sh", python},
		append(batch, "training.gradient_checkpointing={gradient_checkpointing}")...)
	got := finish(t, withGPUs(t, runIn(t, home, dir, robust...), three))
	require.Zero(t, got.code, got.stderr)
	require.Contains(t, got.stdout, "training.batch_size=4 training.gradient_accumulation_steps=8 training.gradient_checkpointing=true")
	require.Len(t, jobDocument(t, home, "robust").Attempts, 5, "32, 16, 8, 4, and 4 with checkpointing")

	known := append([]string{"--gpu", "2", "--batch-size", "16", "--accumulate", "8", "--", "sh", "-c", `echo "$CUDA_VISIBLE_DEVICES $*"`, "sh"}, batch...)
	got = finish(t, withGPUs(t, runIn(t, home, dir, known...), three))
	require.Equal(t, "2 training.batch_size=16 training.gradient_accumulation_steps=8\n", got.stdout, got.stderr)

	train := append([]string{python, "train.py", "model=lora", "device={device}", "training.num_workers=0"}, batch...)
	fallback := append([]string{"--cpu", "fallback", "--min-gpu-memory", "2GB", "--batch-size", "8", "--"}, train...)
	got = finish(t, withGPUs(t, runIn(t, home, dir, fallback...), "Tesla T4:15360:1500;Tesla T4:15360:900"))
	require.Zero(t, got.code, got.stderr)
	require.Contains(t, got.stdout, "batch_size=8 accumulate=1 effective_batch=8")
	require.Contains(t, got.stderr, "on the CPU", "and why is said")

	only := append([]string{"--cpu", "only", "--batch-size", "1", "--min-batch-size", "1", "--"}, train...)
	got = finish(t, runIn(t, home, dir, only...))
	require.Zero(t, got.code, got.stderr)
	require.Contains(t, got.stdout, "effective_batch=1")
}

// Guide 3's justfile starts four trainings with & and waits. On one GPU they take turns, because their memory need is
// unknown.
func TestGuide3sTrainingsAtOnce(t *testing.T) {
	t.Parallel()
	home, dir := t.TempDir(), t.TempDir()
	// mkdir succeeds for one at a time, so that two at once would fail.
	const alone = "mkdir busy || exit 9; sleep 0.2; rmdir busy; echo $0 >> done"
	var all []func() int
	for _, name := range []string{"linear-flowers", "linear-cub", "lora-flowers", "lora-cub"} {
		cmd := withGPUs(t, runIn(t, home, dir, "--name", name, "--wait-for-gpu", "10m", "--gpu-check-interval", "100ms", "--", "sh", "-c", alone, name), t4)
		require.NoError(t, cmd.Start())
		all = append(all, func() int { return waitFor(t, cmd) })
	}
	for _, ended := range all {
		require.Zero(t, ended())
	}
	text, err := os.ReadFile(filepath.Join(dir, "done"))
	require.NoError(t, err)
	require.Equal(t, 4, strings.Count(string(text), "\n"), string(text))
}
