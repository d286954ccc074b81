package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/launcher/job/tune"
)

// tuneJSON runs swarm tune -o json.
func tuneJSON(t *testing.T, home string, args ...string) tune.Document {
	t.Helper()
	o := swarm(t, home, append([]string{"tune", "-o", "json"}, args...)...)
	require.Zero(t, o.code, o.stderr)
	var d tune.Document
	require.NoError(t, json.Unmarshal([]byte(o.stdout), &d))
	return d
}

// trainingFolder is a copy of testdata/training's settings.
func trainingFolder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS("testdata/training")))
	return dir
}

func TestTuneText(t *testing.T) {
	t.Parallel()
	o := swarm(t, t.TempDir(), "tune", "--workload", "naics-embedder", "--gpu-memory", "24")
	require.Zero(t, o.code, o.stderr)
	require.Empty(t, o.stderr)
	head, _, _ := strings.Cut(o.stdout, "\nGood to know")
	require.Equal(t, `workload   naics-embedder: contrastive learning with a multi-channel text encoder
GPU        a GPU of that size, 24.0 GiB
from       published row Quadro RTX 6000 (24 GB), guide 2 (GPU Memory Optimization Guide)

Recommended:
  batch_size               45   conf/config.yaml:data_loader.batch_size
  accumulate_grad_batches  5    conf/config.yaml:training.trainer.accumulate_grad_batches
  effective batch          225  45 x 5, target 256
  stage 01                      expected memory 19.8 GiB
    n_positives            32   conf/text_curriculum/01_stage.yaml:n_positives
    n_negatives            24   conf/text_curriculum/01_stage.yaml:n_negatives
  stage 02-05                   expected memory 9.2 GiB
    n_positives            16   conf/text_curriculum/{02,03,04,05}_stage.yaml:n_positives
    n_negatives            8    conf/text_curriculum/{02,03,04,05}_stage.yaml:n_negatives

Values and their sources:
  batch_size               45   published row
  accumulate_grad_batches  5    published row
  max_length               512  profile's default, assumed: conf/config.yaml does not exist
  devices                  1    profile's rule
  stage 01
    n_positives            32   profile's default: conf/text_curriculum/01_stage.yaml does not exist
    n_negatives            24   profile's default, assumed: conf/text_curriculum/01_stage.yaml does not exist
  stage 02-05
    n_positives            16   profile's default: conf/text_curriculum/02_stage.yaml does not exist
    n_negatives            8    profile's default, assumed: conf/text_curriculum/02_stage.yaml does not exist
--apply writes nothing until the assumed values are in the files or --set gives them.

Expected memory: 19.8 GiB of 24.0 GiB (83 %), margin 85 %
  model parameters  201 MiB   4 channel encoders, experts, projection; fp16
  optimizer state   803 MiB   AdamW's momentum and variance, fp32
  gradients         201 MiB   same size as the parameters
  activations       17.1 GiB  encoders and experts; a quarter is kept with checkpointing
  batch data        37 MiB    input tokens and attention masks
  overhead          1.5 GiB   CUDA context and PyTorch
`, head)
}

func TestTuneDocument(t *testing.T) {
	t.Parallel()
	o := swarm(t, t.TempDir(), "tune", "--workload", "naics-embedder", "--gpu-memory", "40GB", "-o", "json")
	require.Zero(t, o.code, o.stderr)
	document := fields(t, decode(t, o.stdout), map[string]string{
		"workload": "string", "about": "string", "source": "string", "chosen": "string", "gpu": "object", "target_effective_batch": "number",
		"devices": "number", "estimate": "string", "values": "array", "batch_size": "number", "accumulate": "number", "effective_batch": "number",
		"expected_bytes": "number", "utilisation": "number", "safety_margin": "number", "components": "array", "stages": "array", "published": "bool",
		"published_for": "string", "fits": "bool", "warnings": "array", "profile": "object?", "ladder": "array", "edits": "object?", "advice": "array",
		"next": "array",
	})
	fields(t, document["gpu"], map[string]string{"index": "number?", "name": "string", "memory_total_bytes": "number"})
	for _, v := range document["values"].([]any) {
		fields(t, v, map[string]string{"name": "string", "value": "string", "decided": "bool", "places": "array", "source": "string", "file": "string",
			"line": "number", "current": "string", "used": "bool", "assumed": "bool", "why": "string"})
	}
	var d tune.Document
	require.NoError(t, json.Unmarshal([]byte(o.stdout), &d))
	require.Equal(t, []int{82, 3, 246}, []int{d.Batch, d.Accumulate, d.EffectiveBatch})
	require.EqualValues(t, 40<<30, d.GPU.MemoryTotal)
	require.Equal(t, tune.EstimatePublished, d.Estimate)
}

// Every flag for a memory size is a plan.Size, so that all commands read 24, 24GB and 24GiB alike.
func TestEverySizeOfMemoryIsReadAlike(t *testing.T) {
	t.Parallel()
	seen := 0
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if strings.HasSuffix(f.Name, "memory") {
				require.Equal(t, "size", f.Value.Type(), "%s --%s", c.CommandPath(), f.Name)
				seen++
			}
		})
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(newRootCommand(&globals{}))
	require.Greater(t, seen, 8)
}

func TestTuneOnAGPU(t *testing.T) {
	t.Parallel()
	o := onGPUs(t, t.TempDir(), t4+";"+a100x40+";"+v100, "tune", "--workload", "naics-embedder", "--auto", "-o", "json")
	require.Zero(t, o.code, o.stderr)
	var d tune.Document
	require.NoError(t, json.Unmarshal([]byte(o.stdout), &d))
	require.Equal(t, 1, *d.GPU.Index, "the one with most memory")
	require.Equal(t, 82, d.Batch)
	o = onGPUs(t, t.TempDir(), t4+";"+a100x40+";"+v100, "tune", "--workload", "naics-embedder", "--auto", "--gpu", "2", "-o", "json")
	require.Zero(t, o.code, o.stderr)
	require.NoError(t, json.Unmarshal([]byte(o.stdout), &d))
	require.Equal(t, 64, d.Batch)
	o = onGPUs(t, t.TempDir(), "NVIDIA A100-SXM4-40GB:40960:5000", "tune", "--workload", "naics-embedder", "--auto")
	require.Zero(t, o.code, o.stderr)
	require.Contains(t, o.stderr, "Warning: GPU 0 already has 35.1 GiB in use")
	o = onGPUs(t, t.TempDir(), t4, "tune", "--auto", "--gpu", "3")
	require.Equal(t, outcome{2, "", "Error: there is no GPU 3 among the 1 found\nTry: swarm gpu --once\n"}, o)
}

func TestTuneRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "bad.yaml"), []byte("name: x\nvalue: []\n"), 0o600))
	require.NoError(t, syscall.Mkfifo(filepath.Join(dir, "pipe.yaml"), 0o600))
	for _, tt := range []struct {
		args string
		code int
		want string
	}{
		{"", 2, "Error: the GPU is unknown: neither --auto nor --gpu-memory is given"},
		{"--auto --gpu-memory 24", 2, "Error: --auto and --gpu-memory contradict each other"},
		{"--gpu-memory 24 --workload naics", 2, `Error: unknown workload "naics": allowed: lora-classifier, naics-embedder`},
		{"--gpu-memory 24 --workload DIR/none.yaml", 2, "there is no such file; built-in profiles: lora-classifier"},
		{"--gpu-memory 24 --workload DIR", 2, "it is not a regular file"},
		{"--gpu-memory 24 --workload DIR/pipe.yaml", 2, "it is not a regular file"},
		{"--gpu-memory 24 --workload DIR/bad.yaml", 2, `bad.yaml:2): did you mean "values"?`},
		{"--gpu-memory 24 --safety-margin 85", 2, `Error: bad safety-margin "85": allowed: a number from 0.05 to 1`},
		{"--gpu-memory 24 --target-effective-batch 0", 2, `Error: bad target-effective-batch "0"`},
		{"--gpu-memory 24 --devices 0", 2, `Error: bad devices "0"`},
		{"--gpu-memory 24 --gpu 1", 2, "Error: --gpu selects one of this host's GPUs and needs --auto"},
		{"--gpu-memory 24 --apply --dry-run", 2, "Error: --apply, --dry-run, --undo and --list exclude each other"},
		{"--gpu-memory 24 --workload verl-grpo --target-effective-batch 64", 2, "has no value with role accumulate"},
		{"--gpu-memory 24 --workload naics-embedder --set n_negative=8", 2, "allowed: NAME=NUMBER with a value of naics-embedder: batch_size"},
		{"--gpu-memory 24 --workload naics-embedder --set batch_size=1.5", 2, "a batch or accumulation is a whole number"},
		{"--gpu-memory 24 --profile", 2, "Error: --profile needs the command to measure"},
		{"--gpu-memory 24 --profile -- true", 2, "Error: the command does not use {batch_size}"},
		{"--gpu-memory 24 -- true {batch_size}", 2, "Error: a command runs only with --profile"},
		{"--gpu-memory 24 extra", 2, `Error: swarm tune takes no argument "extra"`},
		{"--gpu-memory 24 --workload naics-embedder --dry-run --dir DIR", 2, "conf/config.yaml"},
		{"--gpu-memory 2 --workload naics-embedder", 3, "Error: naics-embedder is expected to take 3.0 GiB with a batch of 1, but only 85 % of 2.0 GiB may be used"},
		{"--gpu-memory 24 --workload lora-classifier --apply", 3, "Error: nothing is written"},
		{"--auto", 3, "Error: --auto finds no GPU: "},
	} {
		cmd := swarmCommand(t, dir, append([]string{"tune"}, strings.Fields(strings.ReplaceAll(tt.args, "DIR", dir))...)...)
		cmd.Env = append(cmd.Env, "SWARM_NVML_LIBRARY=/nonexistent/libnvidia-ml.so.1")
		o := finish(t, cmd)
		require.Equal(t, tt.code, o.code, "%s: %s", tt.args, o.stderr)
		require.Contains(t, o.stderr, tt.want, tt.args)
	}
}

// Guide 2's --apply: the values in their places, comments kept, a backup beside each file, and undo.
func TestTuneAppliesAndUndoes(t *testing.T) {
	t.Parallel()
	home, dir := t.TempDir(), trainingFolder(t)
	path := filepath.Join(dir, "conf", "config.yaml")
	before, err := os.ReadFile(path)
	require.NoError(t, err)

	d := tuneJSON(t, home, "--workload", "naics-embedder", "--gpu-memory", "24", "--dir", dir, "--dry-run")
	require.False(t, d.Edits.Applied)
	require.Contains(t, d.Edits.Diff, "+  batch_size: 45")
	now, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, before, now, "a dry run changes nothing")

	d = tuneJSON(t, home, "--workload", "naics-embedder", "--gpu-memory", "24", "--dir", dir, "--apply")
	require.True(t, d.Edits.Applied)
	now, err = os.ReadFile(path)
	require.NoError(t, err)
	require.Contains(t, string(now), "batch_size: 45 ")
	require.Contains(t, string(now), "accumulate_grad_batches: 5 ")
	require.Equal(t, strings.Count(string(before), "#"), strings.Count(string(now), "#"), "comments stay")
	backup, err := os.ReadFile(path + ".backup")
	require.NoError(t, err)
	require.Equal(t, before, backup)

	d = tuneJSON(t, home, "--workload", "naics-embedder", "--gpu-memory", "24", "--dir", dir, "--apply")
	require.Empty(t, d.Edits.Files, "nothing is left to do")

	o := swarm(t, home, "tune", "--undo", "--dir", dir)
	require.Zero(t, o.code, o.stderr)
	now, err = os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(before), string(now))
}

// Without --workload, the folder determines the profile.
func TestTuneFindsTheProfile(t *testing.T) {
	t.Parallel()
	home, dir := t.TempDir(), t.TempDir()
	require.Equal(t, "sapo", tuneJSON(t, home, "--gpu-memory", "24", "--dir", dir).Workload)
	require.NoError(t, os.CopyFS(filepath.Join(dir, "conf"), os.DirFS("testdata/training/conf")))
	d := tuneJSON(t, home, "--gpu-memory", "24", "--dir", dir)
	require.Equal(t, "naics-embedder", d.Workload)
	require.Contains(t, d.Chosen, "conf/config.yaml")
}

// Memory of swarm's own nodes is launcher/fit's estimate, not guide 4's. It grows with the micro-batch, up to the
// experiment's sequences.
func TestTuneSAPO(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	large := tuneJSON(t, home, "--workload", "sapo", "--gpu-memory", "80")
	require.Equal(t, tune.EstimateFit, large.Estimate)
	require.Equal(t, []int{64, 1, 64}, []int{large.Batch, large.Accumulate, large.EffectiveBatch})
	small := tuneJSON(t, home, "--workload", "sapo", "--gpu-memory", "8")
	require.Less(t, small.Batch, 64)
	require.LessOrEqual(t, small.ExpectedBytes, int64(0.85*8e9))
}

// --profile runs the command and uses its measured memory. This command holds 160 MB plus 8 MB per sample, which is
// much more than the shared part of an interpreter. Above 48 samples it fails like torch.
func TestTuneMeasures(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	script := `import sys, time
batch = int(sys.argv[1])
held = b"x" * ((160 + 8 * batch) << 20)
if batch > 48:
    print("RuntimeError: [enforce fail at alloc_cpu.cpp:75] . DefaultCPUAllocator: can't allocate memory: you tried to allocate 999999999 bytes. Error code 12 (Cannot allocate memory)", file=sys.stderr)
    sys.exit(1)
time.sleep(0.7)
`
	require.NoError(t, os.WriteFile(filepath.Join(dir, "train.py"), []byte(script), 0o600))
	profile := "name: mine\nvalues:\n  - {name: batch_size, role: batch, start: 64}\n  - {name: steps, role: accumulate, start: 1}\ntarget_effective_batch: 4096\n" +
		"memory:\n  - {name: all, bytes: 400MiB + 4MiB * batch_size}\n"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "mine.yaml"), []byte(profile), 0o600))
	cmd := swarmCommand(t, dir, "tune", "--workload", filepath.Join(dir, "mine.yaml"), "--gpu-memory", "800MB", "--dir", dir, "--profile", "-o", "json",
		"--", usablePython(t), "train.py", "{batch_size}")
	cmd.Env = append(cmd.Env, "SWARM_NVML_LIBRARY=/nonexistent/libnvidia-ml.so.1")
	o := finish(t, cmd)
	require.Zero(t, o.code, o.stderr)
	var d tune.Document
	require.NoError(t, json.Unmarshal([]byte(o.stdout), &d))
	require.Equal(t, tune.EstimateMeasured, d.Estimate)
	require.Equal(t, "host", d.Profile.Where)
	var fits []bool
	for _, p := range d.Profile.Points {
		fits = append(fits, p.Fits)
	}
	require.Equal(t, []bool{true, true, false}, fits, o.stdout)
	require.InEpsilon(t, 8<<20, d.Profile.Line.PerSample, 0.2)
	require.NotNil(t, d.Profile.LargestDifference)
	require.Less(t, d.Batch, d.Profile.Points[2].Batch, "what didn't fit is not recommended")
	require.LessOrEqual(t, d.ExpectedBytes, int64(0.85*800e6))

	cmd = swarmCommand(t, dir, "tune", "--workload", filepath.Join(dir, "mine.yaml"), "--gpu-memory", "800MB", "--dir", dir, "--profile",
		"--", "sh", "-c", "echo {batch_size}; exit 7")
	o = finish(t, cmd)
	require.Equal(t, 1, o.code)
	require.Contains(t, o.stderr, "exit code 7")
}

func TestTuneLists(t *testing.T) {
	t.Parallel()
	o := swarm(t, t.TempDir(), "tune", "--list")
	require.Zero(t, o.code, o.stderr)
	require.Equal(t, len(configs.Workloads()), strings.Count(o.stdout, "\n"))
	o = swarm(t, t.TempDir(), "tune", "--list", "-o", "json")
	var list []tune.Listed
	require.NoError(t, json.Unmarshal([]byte(o.stdout), &list))
	require.Equal(t, configs.Workloads()[1], list[1].Name)
}
