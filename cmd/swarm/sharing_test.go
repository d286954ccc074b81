package main

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/launcher/fit"
	"github.com/sapo-swarm/swarm/metrics/stats"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// trainOnGPUs trains the tiny model under a plan for fake NVML GPUs. Its engines run on the CPU.
func trainOnGPUs(t *testing.T, home, gpus string, more ...string) (stats.Summary, fit.Plan, *store.Reader) {
	t.Helper()
	args := append([]string{"up", "-o", "json", "--rounds", "3"}, tinyRun(append([]string{"--device", "cuda"}, more...)...)...)
	cmd := swarmCommand(t, home, args...)
	cmd.Env = append(cmd.Env, "SWARM_NVML_LIBRARY="+fakeNVML(t), "FAKE_NVML="+gpus, enginesOnCPU+"=1")
	o := finish(t, cmd)
	require.Equal(t, 0, o.code, o.stderr)
	var summary stats.Summary
	require.NoError(t, json.Unmarshal([]byte(lastLine(o.stdout)), &summary))
	reader, err := store.OpenReader(t.Context(), filepath.Join(home, "swarm.db"))
	require.NoError(t, err)
	t.Cleanup(func() { reader.Close() })
	snapshot, err := reader.Snapshot(t.Context(), "")
	require.NoError(t, err)
	var plan fit.Plan
	require.NoError(t, json.Unmarshal(snapshot.Run.Plan, &plan))
	return summary, plan, reader
}

// However nodes share a GPU, their rewards equal those on the CPU.
func TestSharingAGPUChangesNoReward(t *testing.T) {
	t.Parallel()
	onCPU := finish(t, swarmCommand(t, t.TempDir(), append([]string{"up", "-o", "json", "--rounds", "3"}, tinyRun()...)...))
	require.Equal(t, 0, onCPU.code, onCPU.stderr)
	var want stats.Summary
	require.NoError(t, json.Unmarshal([]byte(lastLine(onCPU.stdout)), &want))
	require.Positive(t, want.CumulativeReward)

	for _, tt := range []struct {
		name, gpus string
		args       []string
		check      func(*testing.T, fit.Plan)
	}{
		{"static", t4, []string{"--share", "static"}, func(t *testing.T, p fit.Plan) {
			require.Equal(t, fit.ShareStatic, p.Share)
			require.Empty(t, p.ShareWhy)
		}},
		{"auto, where there is no CUDA for the proof of MPS", t4, nil, func(t *testing.T, p fit.Plan) {
			require.Equal(t, fit.ShareStatic, p.Share)
			require.Regexp(t, "^NVIDIA MPS is not used: MPS on GPU 0: the test process got no memory below its limit: error libcuda", p.ShareWhy)
			require.NotContains(t, p.ShareWhy, "Try:")
		}},
		{"lease", t4, []string{"--share", "lease"}, func(t *testing.T, p fit.Plan) { require.Equal(t, fit.ShareLease, p.Share) }},
		{"lease with offload", t4, []string{"--share", "lease", "--optimizer-offload", "--param-offload"}, func(*testing.T, fit.Plan) {}},
		{"two cards", t4 + ";" + t4, nil, func(t *testing.T, p fit.Plan) {
			require.NotEqual(t, *p.Placement[0].GPU, *p.Placement[1].GPU)
			require.NotEqual(t, p.Environment(0), p.Environment(1))
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, plan, reader := trainOnGPUs(t, t.TempDir(), tt.gpus, tt.args...)
			require.Equal(t, fit.DeviceCUDA, plan.Device)
			tt.check(t, plan)
			require.Equal(t, want.CumulativeReward, got.CumulativeReward)
			samples, err := reader.Devices(t.Context(), got.Run, 0)
			require.NoError(t, err)
			require.NotEmpty(t, samples, "the cards are recorded")
			require.Positive(t, samples[0].MemoryTotalBytes)
			snapshot, err := reader.Snapshot(t.Context(), "")
			require.NoError(t, err)
			for _, n := range snapshot.Nodes {
				require.Equal(t, plan.PerNode.Budget-plan.PerNode.Context, n.BudgetBytes, "%s", n.Node)
				require.Positive(t, n.ResidentBytes)
				require.Positive(t, n.UpdateBytes)
			}
		})
	}
}

// A GPU that falls off the bus ends a run with one clear error, not with restarts.
func TestAGPULostMidRunIsOneClearError(t *testing.T) {
	t.Parallel()
	cmd := swarmCommand(t, t.TempDir(), append([]string{"up", "--rounds", "100000"}, tinyRun("--device", "cuda")...)...)
	cmd.Env = append(cmd.Env, "SWARM_NVML_LIBRARY="+fakeNVML(t), "FAKE_NVML="+t4+":lost=60", enginesOnCPU+"=1")
	o := finish(t, cmd)
	require.Equal(t, fail.ExitFailed, o.code, o.stderr)
	const lost = "GPU 0: the GPU fell off its bus or needs a reset (GPU is lost)"
	require.Equal(t, "Error: 2 of 2 nodes given up: "+lost+" (device)\nTry: swarm gpu and swarm doctor, which recommend fixes\n", o.stderr)
	require.Contains(t, o.stdout, "warning: "+lost+": its nodes are stopped\n")
	require.NotContains(t, o.stdout, "restarts in")
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}

func TestDoctorTellsWhetherMPSCanBeHad(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ gpus, found string }{
		{t4, "available; --share auto"}, // the fake control daemon is on PATH
		{"Tesla M60:8192:8000:capability=5", "Volta"},
		{t4 + ":capability=7,mode=2", "PROHIBITED"},
	} {
		o := onGPUs(t, t.TempDir(), tt.gpus, "doctor", "-o", "json")
		for _, f := range decode(t, o.stdout).([]any) {
			f := f.(map[string]any)
			if f["check"] != "MPS" {
				continue
			}
			require.Equal(t, true, f["ok"], "there are other ways to share")
			require.Contains(t, f["found"], tt.found)
			if tt.gpus != t4 {
				require.Equal(t, "--share lease", f["try"])
			}
		}
		require.Contains(t, o.stdout, `"MPS"`)
	}
}

// A node on several cards is that many data-parallel engines, and learns the same as one engine.
func TestNodesOnSeveralGPUsEachLearnTheSame(t *testing.T) {
	t.Parallel()
	four := strings.Join([]string{t4, t4, t4, t4}, ";")
	one, _, _ := trainOnGPUs(t, t.TempDir(), four)
	two, plan, _ := trainOnGPUs(t, t.TempDir(), four, "--gpus-per-node", "2")
	require.Equal(t, 2, plan.Ranks())
	require.Len(t, plan.Placement[1].GPUs, 2)
	require.NotContains(t, plan.Placement[0].GPUs, plan.Placement[1].GPUs[0])
	require.InDelta(t, one.CumulativeReward, two.CumulativeReward, 1e-9)
}

// A lost GPU ends its nodes at once, with the reason, because restarts can't help.
func TestAGPULostInMidRun(t *testing.T) {
	t.Parallel()
	lost := t4 + ":xid=79"
	run := func(more ...string) outcome {
		cmd := swarmCommand(t, t.TempDir(), append([]string{"up", "-o", "json", "--rounds", "400"}, tinyRun(append([]string{"--device", "cuda"}, more...)...)...)...)
		cmd.Env = append(cmd.Env, "SWARM_NVML_LIBRARY="+fakeNVML(t), "FAKE_NVML="+lost, enginesOnCPU+"=1")
		return finish(t, cmd)
	}
	o := run()
	require.Equal(t, 1, o.code, o.stderr)
	require.Regexp(t, `(?m)^Error: 2 of 2 nodes given up: .*XID 79.*\(device\)$`, o.stderr)
	require.Regexp(t, `(?m)^Try: `, o.stderr)
	require.NotContains(t, o.stdout, `"type":"restart"`)
	require.Contains(t, o.stdout, `"state":"failed"`)
}

func TestComputeModesThatForbidSharing(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		gpus, share, err string
		code             int
	}{
		{a100x80 + ":capability=8,mode=2", "auto", "GPU 0 is in compute mode PROHIBITED", 3},
		{a100x80 + ":capability=8,mode=3", "auto", "GPU 0 is in compute mode EXCLUSIVE_PROCESS, which allows one process", 3},
		{a100x80 + ":capability=8,mode=3", "mps", "", 0},
		{a100x80 + ":capability=8,mode=2;" + t4, "auto", "", 0},
	} {
		o := onGPUs(t, t.TempDir(), tt.gpus, "plan", "--device", "cuda", "--model", "gpt2", "--share", tt.share)
		require.Equal(t, tt.code, o.code, o.stderr)
		if tt.err != "" {
			require.Contains(t, o.stderr, tt.err)
			require.Regexp(t, `(?m)^Try: sudo nvidia-smi -i 0 -c 0`, o.stderr)
		}
	}
}
