package node

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/internal/hostmem"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/node/model"
	"github.com/sapo-swarm/swarm/node/policy"
	"github.com/sapo-swarm/swarm/node/policy/policytest"
	"github.com/sapo-swarm/swarm/node/protocol"
	"github.com/sapo-swarm/swarm/node/tokenizer"
)

// The allocation failures in this file are real: the engine's process has a limit on its address space, or a
// control group that the kernel enforces. The model is the program's own nano, large enough for its activations to
// matter.

// memoryAssignment is a single node with an update that needs several times the memory of the weights.
func memoryAssignment(t *testing.T, run string, change func(*configs.Config)) protocol.Start {
	t.Helper()
	c := configs.Default()
	c.Experiment, c.Model, c.Device, c.SwarmSize, c.Rounds = "memory", "nano", "cpu", 1, 3
	c.NumTrainSamples, c.NumTransplantTrees, c.NumGenerations = 4, 0, 8
	c.MaxPromptLength, c.MaxCompletionLength, c.LearningRate = 192, 48, 3e-4
	c.EvalQuestions = 0   // the tests count the engine's calls
	c.CheckpointEvery = 2 // background checkpoints need memory of their own
	nano, err := configs.TaskSet("nano")
	require.NoError(t, err)
	c.Tasks = configs.Tasks{Set: "nano", SystemPrompt: "none", Mixture: nano}
	if change != nil {
		change(&c)
	}
	require.NoError(t, configs.Validate(c))
	config, err := json.Marshal(c)
	require.NoError(t, err)
	options := lab.Options(t)
	server := broker(t, run)
	return protocol.Start{
		Protocol: protocol.Version, Run: run, Node: "node_0", Members: protocol.Members("node_0"), Dir: t.TempDir(), Config: config,
		Python: options.Python, EngineDir: options.Dir, Tokenizer: tokenizer.NameBytes, ModelDir: nanoModel(t), Device: "cpu", Threads: 1,
		Exchange: protocol.Exchange{Kind: "nats", URL: server.URL(), Token: server.Token()}, Leased: true,
	}
}

// beginSlow is begin with a longer timeout, for nano's rounds on a busy machine.
func beginSlow(t *testing.T, start protocol.Start) *nodeProcess {
	l := begin(t, start)
	l.wait = 4 * soon
	return l
}

func nanoModel(t *testing.T) string {
	t.Helper()
	nano, err := configs.LoadModel("nano")
	require.NoError(t, err)
	dir, err := model.Resolve(nano, t.TempDir())
	require.NoError(t, err)
	return dir
}

// limited returns a Python whose processes run a line of shell first. They have one malloc arena: each further
// arena takes 64 MiB of address space when two threads allocate at the same time.
func limited(t *testing.T, python, line string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "python")
	require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\nexport MALLOC_ARENA_MAX=1\n"+line+"\nexec "+python+" \"$@\"\n"), 0o755))
	return path
}

// proc returns a figure of /proc/PID/status in bytes, 0 once the process is gone.
func proc(pid int, name string) int64 {
	data, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range strings.Lines(string(data)) {
		if fields := strings.Fields(line); len(fields) == 3 && fields[0] == name+":" {
			kilobytes, _ := strconv.ParseInt(fields[1], 10, 64)
			return kilobytes << 10
		}
	}
	return 0
}

// free is a run without a limit: its rewards, its last weights, and its engine's memory.
type free struct {
	rewards       map[int]float64
	before, after []float32 // weights before and after the last round
	loaded, peak  int64     // address space
	anonymous     int64     // private resident memory at load, as a control group counts it
	grown         int64     // resident memory at the peak minus that at load
}

func unlimited(t *testing.T, start protocol.Start) free {
	t.Helper()
	// Not a fork, like an engine under a limit: a fork has another address space.
	start.Python = limited(t, start.Python, ":")
	l := beginSlow(t, start)
	pid := l.loaded().EnginePID
	f := free{loaded: proc(pid, "VmSize"), anonymous: proc(pid, "RssAnon")}
	rss := proc(pid, "VmRSS")
	var c configs.Config
	require.NoError(t, json.Unmarshal(start.Config, &c))
	for round := range c.Rounds {
		l.await("round", func(e event.Event) bool { return e.Type == event.TypeRound && e.Round.Round == round })
		if round == 0 { // before the first checkpoint
			f.peak, f.grown = proc(pid, "VmPeak"), proc(pid, "VmHWM")-rss
		}
	}
	l.ends(ExitDone)
	f.rewards, _ = l.rounds()
	f.before, f.after = checkpointed(t, start.Dir, c.Rounds-1), checkpointed(t, start.Dir, c.Rounds)
	require.Empty(t, l.memorySteps())
	require.Greater(t, f.peak, f.loaded)
	require.Positive(t, slices.Max(slices.Collect(maps.Values(f.rewards))), "the model never scores: nothing is compared")
	return f
}

var (
	bareOnce sync.Once
	bare     free
)

// unlimitedOnce runs the unchanged assignment once for all tests that compare with it.
func unlimitedOnce(t *testing.T) free {
	t.Helper()
	bareOnce.Do(func() { bare = unlimited(t, memoryAssignment(t, "free", nil)) })
	require.NotEmpty(t, bare.rewards, "it failed in another test")
	return bare
}

func (l *nodeProcess) memorySteps() []event.MemoryStep {
	var steps []event.MemoryStep
	for _, e := range l.events {
		if e.Type == event.TypeMemoryStep {
			steps = append(steps, *e.MemoryStep)
		}
	}
	return steps
}

// checkpointed returns the weights of the checkpoint after rounds rounds.
func checkpointed(t *testing.T, dir string, rounds int) []float32 {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, fmt.Sprintf("checkpoint-%08d.safetensors", rounds)))
	require.NoError(t, err)
	header, err := model.ReadHeader(bytes.NewReader(data), int64(len(data)))
	require.NoError(t, err)
	content := data[8+binary.LittleEndian.Uint64(data):]
	var weights []float32
	for _, name := range slices.Sorted(maps.Keys(header)) {
		tensor := header[name]
		if tensor.DType != "F32" || strings.HasPrefix(name, "adam.") {
			continue
		}
		values := make([]float32, tensor.Elements())
		require.NoError(t, binary.Read(bytes.NewReader(content[tensor.DataOffsets[0]:tensor.DataOffsets[1]]), binary.LittleEndian, values))
		weights = append(weights, values...)
	}
	require.NotEmpty(t, weights)
	return weights
}

// distance is the Euclidean distance of two models.
func distance(t *testing.T, a, b []float32) float64 {
	t.Helper()
	require.Len(t, b, len(a))
	sum := 0.0
	for i := range a {
		sum += math.Pow(float64(a[i]-b[i]), 2)
	}
	return math.Sqrt(sum)
}

// sameRun asserts that a run under a limit has the rewards of the free one, and the same weights, rounding aside.
func (f free) sameRun(t *testing.T, rewards map[int]float64, dir string) {
	t.Helper()
	require.Equal(t, f.rewards, rewards)
	moved, apart := distance(t, f.before, f.after), distance(t, f.after, checkpointed(t, dir, len(rewards)))
	t.Logf("the last round moved the weights by %.3g; the runs are %.3g apart", moved, apart)
	require.Less(t, apart, moved/1000)
}

// An engine with too small an address space has real allocation failures. The node climbs down and ends with the
// rewards of a run without a limit. Its next process begins with the learned settings.
func TestAddressSpaceRunsOut(t *testing.T) {
	t.Parallel()
	free := unlimitedOnce(t)
	start := memoryAssignment(t, "tight", nil)
	limit := free.loaded + (free.peak-free.loaded)*9/10
	start.Python = limited(t, start.Python, fmt.Sprintf("prlimit --pid $$ --as=%d", limit))
	l := beginSlow(t, start)
	l.ends(ExitDone)
	steps := l.memorySteps()
	t.Logf("%d bytes of address space, %d at load, %d at the peak without a limit: %+v", limit, free.loaded, free.peak, steps)
	require.GreaterOrEqual(t, len(steps), 2, "the wall was never hit")
	require.Equal(t, event.ActionClearCache, steps[0].Action)
	recomputed := false
	for _, step := range steps {
		require.Equal(t, event.MemoryHost, step.Cause)
		require.Positive(t, step.RequestedBytes)
		require.Equal(t, limit, step.CapBytes)
		require.False(t, step.Action == event.ActionHalveMicroBatch && step.Phase == phaseUpdate, "on a CPU that changes nothing: %+v", step)
		recomputed = recomputed || step.Action == event.ActionCheckpointing
	}
	require.True(t, recomputed, "there was no step that helps an update")
	rewards, _ := l.rounds()
	free.sameRun(t, rewards, start.Dir)

	// The next process has the same work, and begins with the settings learned.
	for _, pattern := range []string{"checkpoint-*", "journal-*"} {
		paths, err := filepath.Glob(filepath.Join(start.Dir, pattern))
		require.NoError(t, err)
		for _, path := range paths {
			require.NoError(t, os.Remove(path))
		}
	}
	again := beginSlow(t, start)
	again.ends(ExitDone)
	require.Less(t, lasting(again.memorySteps()), lasting(steps))
	rewards, _ = again.rounds()
	free.sameRun(t, rewards, start.Dir)
}

// lasting counts the steps that the next process need not repeat: all but clear_cache, because caches fill again.
func lasting(steps []event.MemoryStep) (count int) {
	for _, step := range steps {
		if step.Action != event.ActionClearCache {
			count++
		}
	}
	return count
}

// wide makes generation the phase that needs most memory.
func wide(c *configs.Config) {
	c.NumTrainSamples, c.NumGenerations = 2, 64
	c.MicroBatch, c.GradientCheckpointing = 4, true // an update needs little memory
}

// Generation runs out of memory too: it decodes fewer completions at a time, and returns the same ones.
func TestAddressSpaceRunsOutGenerating(t *testing.T) {
	t.Parallel()
	free := unlimited(t, memoryAssignment(t, "free", wide))
	start := memoryAssignment(t, "tight", wide)
	limit := free.loaded + (free.peak-free.loaded)*9/10
	start.Python = limited(t, start.Python, fmt.Sprintf("prlimit --pid $$ --as=%d", limit))
	l := beginSlow(t, start)
	l.ends(ExitDone)
	steps := l.memorySteps()
	t.Logf("%d bytes of address space, %d at load, %d at the peak without a limit: %+v", limit, free.loaded, free.peak, steps)
	halved := slices.IndexFunc(steps, func(s event.MemoryStep) bool { return s.Action == event.ActionHalveMicroBatch })
	require.GreaterOrEqual(t, halved, 0, "the wall was never hit")
	require.Equal(t, phaseGenerate, steps[halved].Phase)
	require.Equal(t, 64, steps[halved].MicroBatch)
	rewards, _ := l.rounds()
	free.sameRun(t, rewards, start.Dir)
}

// memoryGroup makes a control group with a limit in bytes, above which the kernel kills a process of the group. It
// returns the file to which a process writes its id to enter. It skips the test if it cannot make a group.
func memoryGroup(t *testing.T, limit int64) string {
	t.Helper()
	for _, kind := range []struct{ parent, limit, swap string }{
		{"/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.memsw.limit_in_bytes"},
		{"/sys/fs/cgroup", "memory.max", "memory.swap.max"},
	} {
		dir, err := os.MkdirTemp(kind.parent, "swarm-test-")
		if err != nil {
			continue
		}
		t.Cleanup(func() { _ = os.Remove(dir) })
		if os.WriteFile(filepath.Join(dir, kind.limit), []byte(strconv.FormatInt(limit, 10)), 0o644) != nil {
			continue
		}
		_ = os.WriteFile(filepath.Join(dir, kind.swap), []byte("0"), 0o644) // a machine without swap has no such file
		return filepath.Join(dir, "cgroup.procs")
	}
	t.Skip("no memory control group can be made")
	return ""
}

// The kernel kills an engine that holds too much. The node's next process tries the same once more, and the one
// after it uses a smaller batch. With enough memory again, the rewards and the weights are those of a run without a
// limit.
func TestKernelKillsTheEngine(t *testing.T) {
	if hostmem.OOMKills() < 0 {
		t.Skip("this kernel doesn't count its kills")
	}
	free := unlimitedOnce(t)
	start := memoryAssignment(t, "tight", nil)
	// On a CPU most of an update is gradients and moments: no batch size fits.
	python, limit := start.Python, free.anonymous+free.grown/2
	start.Python = limited(t, python, "echo $$ >"+memoryGroup(t, limit))
	for _, hope := range []string{"tries the same batch once more", "uses smaller batches"} {
		l := beginSlow(t, start)
		l.ends(ExitMemory)
		require.Equal(t, event.CauseHostOutOfMemory, l.failure().Cause)
		require.Contains(t, l.failure().Message, "the kernel's out-of-memory killer ended the engine; after its restart the node "+hope)
		require.Len(t, l.memorySteps(), strings.Count(hope, "smaller"))
	}
	start.Python = python
	l := beginSlow(t, start)
	l.ends(ExitDone)
	rewards, _ := l.rounds()
	free.sameRun(t, rewards, start.Dir)
}

// If nothing helps, the node ends after every rung with figures and a remedy.
func TestAddressSpaceIsTooSmall(t *testing.T) {
	t.Parallel()
	free := unlimitedOnce(t)
	start := memoryAssignment(t, "tiny", nil)
	limit := free.loaded + (free.peak-free.loaded)/10
	start.Python = limited(t, start.Python, fmt.Sprintf("prlimit --pid $$ --as=%d", limit))
	l := beginSlow(t, start)
	l.ends(ExitMemory)
	require.Equal(t, event.CauseHostOutOfMemory, l.failure().Cause)
	require.Regexp(t, `^out of memory in (load|generate|update) of round 0.*host memory is full \(.* asked for, .*\. Try: fewer --nodes`, l.failure().Message)
	var actions []string
	for _, step := range l.memorySteps() {
		actions = append(actions, step.Action)
	}
	for _, action := range []string{event.ActionClearCache, event.ActionHalveMicroBatch, event.ActionCheckpointing} {
		require.Contains(t, actions, action)
	}
	require.NotContains(t, actions, event.ActionOptimizerOffload, "on a CPU it would move nothing")
	files, err := filepath.Glob(filepath.Join(start.Dir, "restart*"))
	require.NoError(t, err)
	require.Empty(t, files)
}

// A real engine continues after a restart as if it had not been restarted.
func TestRestartOfARealEngine(t *testing.T) {
	start := memoryAssignment(t, "restart", nil)
	var hashes [2]string
	for i := range hashes {
		start.Dir = t.TempDir()
		g := &gpu{}
		p := &governed{
			start: start, config: testConfig(t), launch: launchEngine(start, os.Environ(), os.Stderr, nil, g, slog.New(slog.DiscardHandler)), host: g,
			logger: slog.New(slog.DiscardHandler), meter: &meter{},
		}
		require.NoError(t, p.open(t.Context()))
		defer p.Close()
		update := policy.UpdateParams{
			Prompts: [][]int{{104, 105}}, LearningRate: 1e-3, Temperature: 1, Epsilon: 0.2, EpsilonHigh: 0.28, NumIterations: 1, LossType: "bnpo",
			Sequences: []policy.Sequence{{Completion: []int{1, 2, 3}, Advantage: 1}, {Completion: []int{4, 256}, Advantage: -1}}, MicroBatch: 2,
		}
		for step := range 2 {
			_, err := p.Update(t.Context(), update)
			require.NoError(t, err)
			if i == 1 && step == 0 {
				before := p.running.hello.PID
				saved, err := p.saveState(t.Context())
				require.NoError(t, err)
				require.NoError(t, p.restart(t.Context(), saved))
				require.NotEqual(t, before, p.running.hello.PID)
				at := slices.IndexFunc(g.events, func(e event.Event) bool { return e.Type == event.TypeLoaded })
				require.GreaterOrEqual(t, at, 0)
				require.Equal(t, p.running.hello.PID, g.events[at].Loaded.EnginePID)
				policytest.Gone(t, before)
			}
		}
		saved, err := p.Save(t.Context(), policy.SaveParams{Path: filepath.Join(start.Dir, "end"), Format: "checkpoint"})
		require.NoError(t, err)
		hashes[i] = saved.WeightHash
	}
	require.Equal(t, hashes[0], hashes[1], "a step with moments that were restored")
}
