package main

import (
	"encoding/json"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/shirou/gopsutil/v4/mem"
	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/launcher/fit"
)

const (
	a100x80 = "NVIDIA A100-SXM4-80GB:81920:81050"
	a100x40 = "NVIDIA A100-SXM4-40GB:40960:40500"
	v100    = "Tesla V100-SXM2-32GB:32768:32500"
	l4      = "NVIDIA L4:24576:24200"
	t4      = "Tesla T4:15360:15100"
)

// onGPUs runs swarm on a machine whose fake NVML reports those GPUs.
func onGPUs(t *testing.T, home, gpus string, args ...string) outcome {
	t.Helper()
	cmd := swarmCommand(t, home, args...)
	cmd.Env = append(cmd.Env, "SWARM_NVML_LIBRARY="+fakeNVML(t), "FAKE_NVML="+gpus, marker(home))
	return finish(t, cmd)
}

// requireHostMemory skips a test if the host has too little memory for that many nodes on a GPU. Plans count host
// memory, too.
func requireHostMemory(t *testing.T, nodes int) {
	t.Helper()
	memory, err := mem.VirtualMemory()
	require.NoError(t, err)
	if need := uint64(nodes) * 2e9; memory.Available < need {
		t.Skipf("%d MB of memory are available, %d are wanted", memory.Available/1e6, need/1e6)
	}
}

// A GPU that shares the host's memory is used. The plan counts a node's host memory once.
func TestAGPUWithTheHostsMemory(t *testing.T) {
	t.Parallel()
	requireHostMemory(t, 1)
	const gb10 = "NVIDIA GB10:0:0:unified"
	o := onGPUs(t, t.TempDir(), gb10, "plan", "--model", "nano", "--nodes", "1", "-o", "json")
	require.Equal(t, 0, o.code, o.stderr)
	var p fit.Plan
	require.NoError(t, json.Unmarshal([]byte(o.stdout), &p))
	require.Equal(t, fit.DeviceCUDA, p.Device)
	require.True(t, p.GPUs[0].Unified)
	require.Zero(t, p.HostBytes)
	require.Contains(t, p.Breakdown[0].Note, "host memory")
	require.Contains(t, onGPUs(t, t.TempDir(), gb10, "doctor").stdout, "shares the host's memory")
}

// Guide 4's counts for GPT-2, on the guide's cards.
func TestPlanOnGPUs(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, gpus string
		placement  []int
		rule       string
	}{
		{"A100 80 GB", a100x80, []int{0, 0, 0, 0, 0, 0, 0, 0}, "guide table: A100 80GB"},
		{"A100 40 GB", a100x40, []int{0, 0, 0, 0, 0, 0}, "guide table: A100 40GB"},
		{"V100", v100, []int{0, 0, 0, 0}, "guide table: V100 32GB"},
		{"L4", l4, []int{0, 0, 0}, "guide table: L4"},
		{"T4", t4, []int{0}, "guide table: T4"},
		{"two T4", t4 + ";" + t4, []int{0, 1}, "guide table: T4"},
		{"a MIG card is left out", a100x80 + ":mig;" + t4, []int{1}, "guide table: T4"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			requireHostMemory(t, len(tt.placement))
			o := onGPUs(t, t.TempDir(), tt.gpus, "plan", "--config", "4loc4ext", "-o", "json")
			require.Equal(t, 0, o.code, o.stderr)
			p := fields(t, decode(t, o.stdout), map[string]string{
				"device": "string", "gpus": "array", "nodes": "number", "rule": "string", "share": "string", "per_node": "object",
				"limit": "string", "placement": "array", "why": "string",
			})
			fields(t, p["per_node"], map[string]string{"resident_bytes": "number", "transient_bytes": "number", "budget_bytes": "number"})
			for _, gpu := range p["gpus"].([]any) {
				fields(t, gpu, map[string]string{"index": "number", "name": "string", "memory_total_bytes": "number", "memory_free_bytes": "number"})
			}
			for _, at := range p["placement"].([]any) {
				fields(t, at, map[string]string{"node": "string", "gpu": "number?"})
			}
			var plan fit.Plan
			require.NoError(t, json.Unmarshal([]byte(o.stdout), &plan))
			require.Equal(t, fit.DeviceCUDA, plan.Device)
			require.Equal(t, len(tt.placement), plan.Nodes)
			require.Len(t, plan.Placement, plan.Nodes)
			for i, want := range tt.placement {
				require.Equal(t, fit.NodeName(i), plan.Placement[i].Node)
				require.Equal(t, want, *plan.Placement[i].GPU)
			}
			require.True(t, strings.HasPrefix(plan.Rule, tt.rule), "rule %q", plan.Rule)
			require.LessOrEqual(t, plan.PerNode.Resident+plan.PerNode.Transient, plan.PerNode.Budget)
			require.NotEmpty(t, plan.Breakdown)
			require.NotEmpty(t, plan.Rooms)
		})
	}
}

func TestPlanText(t *testing.T) {
	t.Parallel()
	o := onGPUs(t, t.TempDir(), l4, "plan", "--micro-batch", "4")
	require.Equal(t, 0, o.code, o.stderr)
	require.Contains(t, o.stdout, "GPU 0     NVIDIA L4, 25.8 GB, 25.4 GB free\nmodel     gpt2, 124 439 808 parameters\nnodes     3 of 8\n")
	require.Contains(t, o.stdout, "node_2 on GPU 0\n")
	require.Regexp(t, `(?m)^Memory of one node \(estimate\):\n  resident +2\.1 GB *\n    context +500 MB +CUDA context.*\n    cuBLAS +104 MB`, o.stdout)
	require.Regexp(t, `(?m)^    activations +2\.4 GB +4 rows of 1023 tokens x 49152 B x 12 layers$`, o.stdout)
	require.Contains(t, o.stdout, "guide 4 (docs/GUIDES.md) estimates 6.5 GB: weights 500 MB, forward pass 4.0 GB, gradients and optimizer 1.5 GB, working memory 500 MB\n")
	require.Contains(t, o.stdout, "\nChanges that would affect this:\n  --nodes max: 8 nodes, ")
}

func TestGPURefusals(t *testing.T) {
	t.Parallel()
	torch, err := findPython()
	if err != nil || torch.CUDA {
		t.Skip("this is about a torch without CUDA")
	}
	for _, tt := range []struct {
		name, gpus, args string
		code             int
		err, try         string
	}{
		{"too small", "Tesla K20:2048:2000", "up", 3, "does not fit: a gpt2 node takes at least 3.4 GB and Tesla K20 has 2.1 GB free of 2.1 GB, 200 MB of it kept in reserve; with gradient_checkpointing 2.8 GB, with optimizer_offload 1.8 GB and with param_offload 1.8 GB", "a larger GPU, --gradient-checkpointing --optimizer-offload, a smaller --model, or --device cpu"},
		{"too many", "Tesla K20:5120:5000", "up --nodes 4", 3, "does not fit: 4 nodes of gpt2 have 8.4 GB resident and take 1.3 GB more while they compute, but Tesla K20 has 5.2 GB free of 5.4 GB, enough for 1", "--nodes auto, or --nodes 1"},
		{"too little free", t4, "up --min-gpu-memory 16GB", 3, "does not fit: no usable GPU: none has 16 GB free (--min-gpu-memory); Tesla T4 has 15.8 GB", "--wait-for-gpu 60m, or a smaller --min-gpu-memory"},
		{"less than there is", a100x80, "up --gpu-memory 2.1GB --device cuda", 3, "does not fit: a gpt2 node takes at least 3.4 GB and NVIDIA A100-SXM4-80GB has 2.1 GB free of 2.1 GB, 200 MB of it kept in reserve; with gradient_checkpointing 2.8 GB, with optimizer_offload 1.8 GB and with param_offload 1.8 GB", "a larger GPU, --gradient-checkpointing --optimizer-offload, a smaller --model, or --device cpu"},
		{"MIG", a100x80 + ":mig", "up --device cuda", 3, "does not fit: no usable GPU: every visible GPU is in MIG mode", "sudo nvidia-smi -mig 0, or --device cpu"},
		{"torch without CUDA", t4, "up --model " + tinyModel(), 1, usablePython(t) + " has torch " + torch.Torch + ", which was built without CUDA, but the run is planned for a GPU", "pip install torch, then --python PATH; or --device cpu"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			home := filepath.Join(t.TempDir(), "home")
			o := onGPUs(t, home, tt.gpus, strings.Fields(tt.args)...)
			require.Equal(t, outcome{tt.code, "", "Error: " + tt.err + "\nTry: " + tt.try + "\n"}, o)
			requireNothingBegun(t, home)
		})
	}
}

func TestDoctor(t *testing.T) {
	t.Parallel()
	torch, err := findPython()
	if err != nil || torch.CUDA {
		t.Skip("this is about a torch without CUDA")
	}
	home := t.TempDir()
	o := onGPUs(t, home, t4+";"+a100x80+":mig", "doctor", "-o", "json")
	require.Equal(t, 1, o.code, "a GPU that torch can't use is a fault")
	checks := map[string]map[string]any{}
	for _, f := range decode(t, o.stdout).([]any) {
		f := fields(t, f, map[string]string{"check": "string", "ok": "bool", "found": "string"})
		checks[f["check"].(string)] = f
	}
	require.Equal(t, true, checks["home"]["ok"])
	require.Equal(t, "none yet", checks["database"]["found"])
	require.Equal(t, "Tesla T4, 16.1 GB, 15.8 GB free, driver 550.54.15", checks["GPU 0"]["found"])
	require.Equal(t, false, checks["GPU 1"]["ok"])
	require.Equal(t, "sudo nvidia-smi -mig 0", checks["GPU 1"]["try"])
	require.Equal(t, false, checks["python"]["ok"])
	require.Contains(t, checks["python"]["found"], "built without CUDA")

	cmd := swarmCommand(t, home, "doctor")
	cmd.Env = append(cmd.Env, "SWARM_NVML_LIBRARY=/nonexistent/libnvidia-ml.so.1")
	o = finish(t, cmd)
	require.Equal(t, 0, o.code, "no GPU is no fault")
	require.Regexp(t, `(?m)^ok  GPU +none: `+regexp.QuoteMeta(noDriver)+`\n +Try: install the NVIDIA driver$`, o.stdout)
	require.Regexp(t, `(?m)^ok  engine +answers after .* torch `, o.stdout)
}
