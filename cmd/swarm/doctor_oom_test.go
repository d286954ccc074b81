package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/launcher/job/diagnose"
	"github.com/sapo-swarm/swarm/launcher/job/shortage"
)

// guide1 is guide 1's log: its job's overrides, verl's path, and the guide's own message.
const guide1 = `Error executing job with overrides: ['data.train_batch_size=1024', 'data.max_response_length=1024']
Traceback (most recent call last):
  File "/srv/verl/trainer/main_ppo.py", line 64, in main
    run_ppo(config)
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 17.66 GiB.
GPU 0 has a total capacity of 79.18 GiB of which 4.97 GiB is free.
Of the allocated memory 100.77 GiB is allocated by PyTorch
`

// guide2 and guide3 are the symptoms in those guides, within the output of their programs.
const (
	guide2 = `data_loader.batch_size: 45
training.trainer.accumulate_grad_batches: 5
n_negatives: 24
  File "/srv/naics_embedder/cli.py", line 12, in train
RuntimeError: CUDA out of memory. Tried to allocate X.XX GiB
`
	guide3 = `+ python train.py training.batch_size=128 training.gradient_accumulation_steps=1 model.lora_r=8
torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB ` +
		`(GPU 0; 8.00 GiB total capacity; 7.06 GiB already allocated; 0 bytes free; 7.29 GiB reserved in total by PyTorch)
`
)

// explain runs doctor --oom on a log's text.
func explain(t *testing.T, log string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "train.log")
	require.NoError(t, os.WriteFile(file, []byte(log), 0o644))
	return doctorOOM(t, "", append([]string{"--oom", file}, args...)...)
}

func doctorOOM(t *testing.T, stdin string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(append([]string{"doctor", "--home", t.TempDir()}, args...), strings.NewReader(stdin), &out, &errs)
	return code, out.String(), errs.String()
}

func explained(t *testing.T, log string, args ...string) diagnose.Document {
	t.Helper()
	code, out, errs := explain(t, log, append(args, "-o", "json")...)
	require.Equal(t, fail.ExitDone, code, errs)
	var d diagnose.Document
	require.NoError(t, json.Unmarshal([]byte(out), &d))
	return d
}

// edits formats a step's edits as "value: from -> to".
func edits(s diagnose.Step) []string {
	var list []string
	for _, e := range s.Edits {
		list = append(list, e.Value+": "+e.From+" -> "+e.To)
	}
	return list
}

func TestGuideOnesLogIsExplainedWithItsLadder(t *testing.T) {
	t.Parallel()
	d := explained(t, guide1)
	require.Equal(t, shortage.Torch, d.Shortage.Kind)
	require.Equal(t, int64(18962280612), d.Shortage.Asked) // 17.66 GiB
	require.Equal(t, "main_ppo.py:64 in main", d.Shortage.Where)
	require.True(t, d.LastFailure)
	require.Len(t, d.Warnings, 1)
	require.Contains(t, d.Warnings[0], "100.77 GiB allocated exceeds the GPU's 79.18 GiB")
	require.Equal(t, "verl-grpo", d.Workload.Name)
	require.True(t, d.Workload.Guessed)
	require.Contains(t, d.Workload.From, "data.train_batch_size=1024 in line 1")
	require.Equal(t, "max_response_length", d.Values[6].Name)
	require.Equal(t, "line 1 of the log", d.Values[6].From)
	require.ElementsMatch(t, []string{"train_batch_size: 1024 -> 512", "ppo_mini_batch_size: 256 -> 128", "ppo_micro_batch_size_per_gpu: 32 -> 16",
		"param_offload: False -> True", "optimizer_offload: False -> True"}, edits(d.Ladder[0]))
	require.ElementsMatch(t, []string{"train_batch_size: 512 -> 256", "ppo_mini_batch_size: 128 -> 64", "ppo_micro_batch_size_per_gpu: 16 -> 8"},
		edits(d.Ladder[1]))
	require.Equal(t, []string{"gpu_memory_utilization: 0.6 -> 0.4"}, edits(d.Ladder[2]))
	require.Equal(t, []string{"max_response_length: 1024 -> 512"}, edits(d.Ladder[3]))
	require.Equal(t, []string{"gres: gpu:4 -> gpu:8", "n_gpus_per_node: 4 -> 8"}, edits(d.Ladder[4]))
	require.Contains(t, d.Ladder[0].TradeOff, "30 to 50 % slower")

	code, out, _ := explain(t, guide1)
	require.Equal(t, fail.ExitDone, code)
	require.Contains(t, out, "The memory of GPU 0 ran out (PyTorch): line 5 of ")
	require.Regexp(t, `(?m)^  asked for +17\.66 GiB  \(19\.0 GB\)$`, out)
	require.Contains(t, out, "Workload verl-grpo: a guess, from ")
	require.Contains(t, out, "data.train_batch_size=512")
}

func TestGuideTwosAndThreesLogsNameTheirWorkloads(t *testing.T) {
	t.Parallel()
	d := explained(t, guide2)
	require.Equal(t, "naics-embedder", d.Workload.Name)
	require.Zero(t, d.Shortage.Asked)
	require.Contains(t, d.Means, "the message contains no figures")
	require.Contains(t, strings.Join(edits(d.Ladder[0]), " "), "batch_size: 45 -> 22")

	d = explained(t, guide3)
	require.Equal(t, "lora-classifier", d.Workload.Name)
	require.ElementsMatch(t, []string{"batch_size: 128 -> 64", "gradient_accumulation_steps: 1 -> 2"}, edits(d.Ladder[1]))
	// 0.23 GiB were reserved but unused, and 0.02 GiB were requested.
	require.Equal(t, "export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True", d.Ladder[0].Command)
}

func TestEditsNameTheLinesOfTheTrainingsFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "run_grpo.sh"), []byte("#!/bin/bash\npython -m verl.trainer.main_ppo \\\n"+
		"  data.train_batch_size=512 \\\n  actor_rollout_ref.rollout.gpu_memory_utilization=0.55\n"), 0o644))
	d := explained(t, guide1, "--workload", "verl-grpo", "--dir", dir)
	require.False(t, d.Workload.Guessed)
	byName := map[string]diagnose.Value{}
	for _, v := range d.Values {
		byName[v.Name] = v
	}
	// The log has the values of the failed job. If the file differs, a note says so.
	require.Equal(t, diagnose.Value{Name: "train_batch_size", Value: "1024", From: "line 1 of the log", Note: "run_grpo.sh:3 has 512 now"}, byName["train_batch_size"])
	require.Equal(t, diagnose.Value{Name: "gpu_memory_utilization", Value: "0.55", From: "run_grpo.sh:4", Note: ""}, byName["gpu_memory_utilization"])
	for _, s := range d.Ladder {
		require.Len(t, s.Lines, len(s.Edits))
		for i, e := range s.Edits {
			if e.Value == "train_batch_size" {
				require.Equal(t, 3, s.Lines[i])
			}
		}
	}
}

func TestWithoutAWorkloadThereIsAGeneralLadder(t *testing.T) {
	t.Parallel()
	d := explained(t, "python train.py --batch-size 32\n"+
		"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 7.49 GiB. GPU 0 has a total capacity of 15.47 GiB of which 6.71 GiB is free. "+
		"Process 28800 has 15.53 MiB memory in use. Process 54776 has 7.75 GiB memory in use. "+
		"Including non-PyTorch memory, this process has 222.00 MiB memory in use.\n")
	require.Nil(t, d.Workload)
	require.Equal(t, "Use a GPU without other processes", d.Ladder[0].Title)
	require.Equal(t, "swarm run --wait-for-gpu 60m --min-gpu-memory 8GiB -- COMMAND", d.Ladder[0].Command)
	require.Contains(t, strings.Join(d.Means, "; "), "7.77 GiB are held by other processes: process 28800 (15.53 MiB), process 54776 (7.75 GiB)")
	require.Equal(t, []string{"batch_size: 32 -> 16"}, edits(d.Ladder[1]))

	d = explained(t, "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.15 GiB. GPU 0 has a total capacity of 39.56 GiB of which "+
		"6.80 MiB is free. Including non-PyTorch memory, this process has 36.61 GiB memory in use. Of the allocated memory 31.66 GiB is allocated "+
		"by PyTorch, and 4.11 GiB is reserved by PyTorch but unallocated.\n")
	require.Equal(t, "export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True", d.Ladder[0].Command)
}

func TestHostMemoryHasALadderOfItsOwn(t *testing.T) {
	t.Parallel()
	d := explained(t, "slurmstepd: error: Detected 1 oom-kill event(s) in StepId=191.batch cgroup.\n", "--workload", "verl-grpo")
	require.True(t, d.Shortage.OnHost)
	require.NotContains(t, strings.Join(edits(d.Ladder[0]), " "), "offload: False -> True")
	for _, s := range d.Ladder {
		require.NotContains(t, s.Title, "ffload parameters")
	}
	require.Contains(t, d.Advice[0], "is about GPU memory and does not help here")
}

func TestALogWithoutAShortageSaysWhatElseFailed(t *testing.T) {
	t.Parallel()
	code, out, errs := explain(t, "step 1\n# avoids CUDA out of memory\nRuntimeError: CUDA error: device-side assert triggered\n")
	require.Equal(t, fail.ExitFailed, code)
	require.Empty(t, errs)
	require.Contains(t, out, "No memory shortage in the 3 lines of ")
	require.Contains(t, out, "the last failure (device_assert) is in line 3:")

	code, out, _ = explain(t, "", "-o", "json")
	require.Equal(t, fail.ExitFailed, code)
	var d diagnose.Document
	require.NoError(t, json.Unmarshal([]byte(out), &d))
	require.Nil(t, d.Shortage)

	code, out, _ = doctorOOM(t, "Killed\n", "--oom", "-")
	require.Equal(t, fail.ExitFailed, code)
	require.Contains(t, out, "dmesg -T")
}

func TestAShortageThatWasHandledIsNotTheLastFailure(t *testing.T) {
	t.Parallel()
	log := guide3 + strings.Repeat("step\n", 3000) + "OSError: [Errno 28] No space left on device\n"
	code, out, _ := explain(t, log)
	require.Equal(t, fail.ExitDone, code)
	require.Contains(t, out, "It is not the last failure: line 3003 (disk) is: OSError")
}

func TestTheNewestLogOfAFolderIsRead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, age := range map[string]time.Duration{"old.log": time.Hour, "slurm-2.err": 0, "model.bin": -time.Hour} {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(name+"\n"+guide3), 0o644))
		require.NoError(t, os.Chtimes(path, time.Time{}, time.Now().Add(-age)))
	}
	code, out, _ := doctorOOM(t, "", "--oom", dir)
	require.Equal(t, fail.ExitDone, code)
	require.Contains(t, out, filepath.Join(dir, "slurm-2.err"))
}

func TestWhatIsNoLogIsRefused(t *testing.T) {
	t.Parallel()
	empty := t.TempDir()
	for _, c := range []struct {
		name, stdin string
		args        []string
		says        string
	}{
		{"no file", "", []string{"--oom", filepath.Join(empty, "no.log")}, "no such file or directory"},
		{"no log in the folder", "", []string{"--oom", empty}, "the folder has no file with the ending .log .err .out .txt"},
		{"nothing named", "", []string{"--oom", ""}, `bad oom "" (--oom)`},
		{"UTF-16", "\xff\xfeC\x00U\x00D\x00A\x00", []string{"--oom", "-"}, "it is UTF-16: iconv -f UTF-16 -t utf-8"},
		{"gzip", "\x1f\x8b\x08\x00", []string{"--oom", "-"}, "it is compressed with gzip"},
		{"workload", "", []string{"--oom", "-", "--workload", "verl"}, `unknown workload "verl"`},
		{"folder", "", []string{"--oom", "-", "--dir", filepath.Join(empty, "no")}, "allowed: a folder"},
		{"workload without a log", "", []string{"--workload", "sapo"}, "--workload needs --oom"},
		{"output", "", []string{"--oom", "-", "-o", "yaml"}, "text or json"},
	} {
		code, out, errs := doctorOOM(t, c.stdin, c.args...)
		require.Equal(t, fail.ExitUsage, code, c.name)
		require.Empty(t, out, c.name)
		require.Contains(t, errs, c.says, c.name)
	}
}
