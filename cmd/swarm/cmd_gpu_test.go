package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/launcher/fit"
	"github.com/sapo-swarm/swarm/launcher/gpu/fakenvml"
	"github.com/sapo-swarm/swarm/launcher/lifecycle/gpuwatch"
	"github.com/sapo-swarm/swarm/launcher/supervise"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/store"
)

const (
	gpu0 = "GPU-a0000000-0000-4000-8000-000000000000"
	gpu1 = "GPU-a0000001-0000-4000-8000-000000000001"
)

// gpuJSON runs swarm gpu -o json and checks that the document has the fields that docs/CLI.md promises.
func gpuJSON(t *testing.T, o outcome) gpuwatch.Document {
	t.Helper()
	require.Equal(t, 0, o.code, o.stderr)
	require.Empty(t, o.stderr)
	document := fields(t, decode(t, o.stdout), map[string]string{
		"time": "number", "driver": "string", "reason": "string", "host": "object", "devices": "array", "nodes": "array",
		"unattributed_bytes": "number", "warnings": "array", "recommendations": "array",
	})
	fields(t, document["host"], map[string]string{"cores": "number", "memory_total_bytes": "number", "memory_available_bytes": "number"})
	for _, d := range document["devices"].([]any) {
		d := fields(t, d, map[string]string{
			"index": "number", "uuid": "string", "name": "string", "memory_total_bytes": "number", "memory_used_bytes": "number",
			"memory_free_bytes": "number", "unattributed_bytes": "number", "nodes_bytes": "number", "utilization": "number",
			"power_watts": "number", "power_limit_watts": "number", "temperature_celsius": "number", "temperature_slowdown_celsius": "number",
			"slowdowns": "array", "processes": "array?", "mig": "bool", "memory_repair_pending": "bool", "memory_repair_impossible": "bool",
			"lost": "bool", "problem": "string", "recommended_batch_size": "number",
		})
		if list, told := d["processes"].([]any); told {
			for _, p := range list {
				fields(t, p, map[string]string{"pid": "number", "used_bytes": "number"})
			}
		}
	}
	for _, n := range document["nodes"].([]any) {
		fields(t, n, map[string]string{
			"experiment": "string", "run": "string", "id": "string", "gpu": "number?", "state": "string", "memory_bytes": "number",
			"peak_memory_bytes": "number", "resident_bytes": "number", "transient_bytes": "number", "budget_bytes": "number", "context_bytes": "number",
		})
	}
	for _, list := range []string{"warnings", "recommendations"} {
		for _, n := range document[list].([]any) {
			fields(t, n, map[string]string{"gpu": "number?", "code": "string", "text": "string", "try": "string"})
		}
	}
	var typed gpuwatch.Document
	require.NoError(t, json.Unmarshal([]byte(o.stdout), &typed))
	return typed
}

// codes returns the codes of the advice, with their GPUs.
func codes(t *testing.T, o outcome, list string) (found []string) {
	t.Helper()
	for _, n := range decode(t, o.stdout).(map[string]any)[list].([]any) {
		n := n.(map[string]any)
		found = append(found, fmt.Sprintf("%v %v", n["code"], n["gpu"]))
	}
	return found
}

func TestGPUDocument(t *testing.T) {
	t.Parallel()
	o := onGPUs(t, t.TempDir(), a100x80+":util=7,power=80,limit=400,temp=93,slow=92,clocks=0x20,proc=4711/500;"+t4, "gpu", "-o", "json")
	doc := gpuJSON(t, o)
	require.Equal(t, "550.54.15", doc.Driver)
	require.Len(t, doc.Devices, 2)
	require.Equal(t, []gpuwatch.Process{{PID: 4711, UsedBytes: 500 << 20}}, doc.Devices[0].Processes)
	require.Equal(t, []string{"heat"}, doc.Devices[0].Slowdowns)
	require.Equal(t, 22, doc.Devices[0].RecommendedBatchSize)
	require.Nil(t, doc.Devices[1].Processes)
	require.Equal(t, []float64{-1, -1, -1}, []float64{doc.Devices[1].Utilization, doc.Devices[1].PowerWatts, doc.Devices[1].TemperatureCelsius})
	require.Equal(t, doc.Devices[0].MemoryUsedBytes+doc.Devices[1].MemoryUsedBytes, doc.UnattributedBytes)
	require.Equal(t, []string{"heat 0"}, codes(t, o, "warnings"))
	require.Equal(t, []string{"batch_size 0", "batch_size 1"}, codes(t, o, "recommendations"))
}

func TestGPUText(t *testing.T) {
	t.Parallel()
	o := onGPUs(t, t.TempDir(), l4+":util=50,power=60,limit=72,temp=55", "gpu")
	require.Equal(t, 0, o.code, o.stderr)
	require.Equal(t, `GPU 0  NVIDIA L4
  memory ░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░ 394 MB of 25.8 GB   2 %
  50 % busy · 60 of 72 W · 55 °C · unattributed 394 MB

no node is running

better: GPU 0: guide 0 (docs/GUIDES.md) recommends batch size 6 for a single node on this GPU: (total - 2 GB) / (1.5 GB x 2.5)
`, o.stdout)
	require.NotContains(t, o.stdout, "\x1b")
}

// A problem with a machine's GPUs is one clear line. A command that only reads does not fail.
func TestGPUTrouble(t *testing.T) {
	t.Parallel()
	const mig = a100x80 + ":mig,inst=1g.10gb/9728/9700"
	for _, tt := range []struct {
		name, gpus string
		env        []string
		line       string
		devices    int
	}{
		{"no driver", "", []string{"SWARM_NVML_LIBRARY=/nonexistent.so"}, "no GPU: " + noDriver + ". Try: install the NVIDIA driver", 0},
		{"driver and library differ", t4, []string{"FAKE_NVML_FAIL=nvmlInit=18"},
			"no GPU: the NVIDIA kernel module and its library have different versions, as after a driver update. Try: reboot", 0},
		{"no GPU", "", nil, "no GPU: the NVIDIA driver is loaded but sees no GPU. Try: nvidia-smi -L", 0},
		{"all hidden", t4, []string{"CUDA_VISIBLE_DEVICES=-1"}, `no GPU: CUDA_VISIBLE_DEVICES="-1" hides every GPU. Try: unset CUDA_VISIBLE_DEVICES`, 0},
		{"lost before the start", t4 + ":lost;" + t4, nil,
			"read GPU 0: the GPU fell off its bus or needs a reset (GPU is lost). Try: reboot the machine", 1},
		{"lost while it looks", t4 + ":lost=7,temp=50", nil,
			"warning: GPU 0: lost: read GPU 0: the GPU fell off its bus or needs a reset (GPU is lost). Try: reboot the machine", 1},
		{"split", a100x80 + ":mig", nil, "warning: GPU 0: split by MIG, but swarm uses whole GPUs. Try: sudo nvidia-smi -i 0 -mig 0", 1},
		{"split, with instances", mig, nil, "warning: GPU 0: split by MIG, but swarm uses an instance only if you name it: " +
			"NVIDIA A100-SXM4-80GB MIG 1g.10gb (MIG-b0000000-0000-4000-8000-000000000000, 10.2 GB free). " +
			"Try: CUDA_VISIBLE_DEVICES=MIG-b0000000-0000-4000-8000-000000000000, or sudo nvidia-smi -i 0 -mig 0", 1},
		{"an instance named", mig, []string{"CUDA_VISIBLE_DEVICES=MIG-b0000000"}, "GPU 100  NVIDIA A100-SXM4-80GB MIG 1g.10gb", 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			home := t.TempDir()
			run := func(args ...string) outcome {
				cmd := swarmCommand(t, home, args...)
				cmd.Env = append(cmd.Env, "SWARM_NVML_LIBRARY="+fakeNVML(t), "FAKE_NVML="+tt.gpus)
				cmd.Env = append(cmd.Env, tt.env...)
				return finish(t, cmd)
			}
			text := run("gpu", "--once")
			require.Equal(t, 0, text.code, text.stderr)
			require.Contains(t, strings.Split(text.stdout, "\n"), tt.line)
			doc := gpuJSON(t, run("gpu", "-o", "json"))
			require.Len(t, doc.Devices, tt.devices)
			require.Positive(t, doc.Host.MemoryTotalBytes)
		})
	}
}

// NVIDIA's binding ends the process on a function that the driver lacks.
func TestAnOldDriver(t *testing.T) {
	t.Parallel()
	library, err := fakenvml.BuildOldIn(t.TempDir())
	if errors.Is(err, exec.ErrNotFound) {
		t.Skip("no C compiler")
	}
	require.NoError(t, err)
	home := t.TempDir()
	run := func(args ...string) outcome {
		cmd := swarmCommand(t, home, args...)
		cmd.Env = append(cmd.Env, "SWARM_NVML_LIBRARY="+library,
			"FAKE_NVML="+v100+":util=40,clocks=4,limit=300,power=250,proc=12/100,retired=pending,xid=13")
		return finish(t, cmd)
	}
	o := run("gpu", "-o", "json")
	doc := gpuJSON(t, o)
	require.Equal(t, "390.157", doc.Driver)
	require.Equal(t, []string{"power_cap"}, doc.Devices[0].Slowdowns)
	require.Equal(t, []gpuwatch.Process{{PID: 12, UsedBytes: 100 << 20}}, doc.Devices[0].Processes)
	require.True(t, doc.Devices[0].MemoryRepairPending)
	require.Equal(t, 0, run("plan", "--config", "4loc4ext").code)
}

func TestPlanOnAMIGInstance(t *testing.T) {
	t.Parallel()
	const instance = "MIG-b0000000-0000-4000-8000-000000000001"
	cmd := swarmCommand(t, t.TempDir(), "plan", "-o", "json")
	cmd.Env = append(cmd.Env, "SWARM_NVML_LIBRARY="+fakeNVML(t), "CUDA_VISIBLE_DEVICES="+instance,
		"FAKE_NVML="+a100x80+":mig,forbidden,inst=1g.10gb/9728/9700,inst=3g.40gb/40192/40000")
	o := finish(t, cmd)
	require.Equal(t, 0, o.code, o.stderr)
	var plan fit.Plan
	require.NoError(t, json.Unmarshal([]byte(o.stdout), &plan))
	require.Equal(t, fit.DeviceCUDA, plan.Device)
	require.Len(t, plan.GPUs, 1)
	require.Equal(t, fit.GPU{
		Index: 101, UUID: instance, Name: "NVIDIA A100-SXM4-80GB MIG 3g.40gb", MemoryTotal: 40192 << 20, MemoryFree: 40000 << 20,
	}, plan.GPUs[0])
	require.Positive(t, plan.Nodes)
	require.Equal(t, []string{"CUDA_VISIBLE_DEVICES=" + instance}, plan.Environment(0), "what a node's process is started with")
}

// aRun records a run of this process, with two nodes on GPU 0 and one on GPU 1.
func aRun(t *testing.T, home, state string) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), filepath.Join(home, "swarm.db"), store.Options{})
	require.NoError(t, err)
	zero, one := 0, 1
	plan, err := json.Marshal(fit.Plan{
		GPUs:      []fit.GPU{{Index: 0, UUID: gpu0}, {Index: 1, UUID: gpu1}},
		Placement: []fit.Placement{{Node: "node_0", GPU: &zero}, {Node: "node_1", GPU: &zero}, {Node: "node_2", GPU: &one}},
	})
	require.NoError(t, err)
	host, err := os.Hostname()
	require.NoError(t, err)
	self, err := supervise.Identify(os.Getpid())
	require.NoError(t, err)
	now := event.Now()
	require.NoError(t, s.StartRun(t.Context(), store.Run{
		Run: "r-1", Experiment: "r", Plan: plan, Rounds: 3, NodeIDs: []string{"node_0", "node_1", "node_2"}, Host: host, PID: self.PID,
		StartTicks: int64(self.Start), BootID: self.Boot, Started: now,
	}))
	record := func(e event.Event) {
		e.Run = "r-1"
		require.NoError(t, s.Record(t.Context(), e))
	}
	for i := range 3 {
		node := fmt.Sprint("node_", i)
		record(event.Event{Type: event.TypeSpawn, Node: node, Time: now, PID: os.Getpid()})
		record(event.Event{Type: event.TypeState, Node: node, Time: now + 1, State: event.StateUpdating})
		record(event.Event{Type: event.TypeMemory, Node: node, Time: now + 1, Memory: &event.Memory{
			RSSBytes: 1e9, DeviceBytes: 5e9, DevicePeakBytes: 7e9, ResidentBytes: 2e9, GenerateBytes: 1e9, UpdateBytes: 4e9, MicroBatch: 8,
			BudgetBytes: 9e9,
		}})
	}
	// GPU 0 fills by 12 GB an hour for an hour.
	for i := range 61 {
		record(event.Event{Type: event.TypeDevice, Time: now - 3600 + 60*float64(i), Device: &event.Device{
			Index: 0, UUID: gpu0, MemoryTotalBytes: 81920 << 20, MemoryUsedBytes: 40e9 + int64(i)*2e8, Utilization: 0.2, PowerWatts: -1,
			PowerLimitWatts: -1, TemperatureCelsius: -1,
		}})
	}
	if state != "" {
		record(event.Event{Type: event.TypeRunEnded, Time: now + 2, State: event.State(state)})
	}
	require.NoError(t, s.Close())
	return s
}

func TestGPUShowsTheNodesOfRunningRuns(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	aRun(t, home, "")
	// 49 590 MiB and 4 800 MiB in use.
	cards := "NVIDIA A100-SXM4-80GB:81920:32330:proc=none;" + "Tesla T4:15360:10560"
	o := onGPUs(t, home, cards, "gpu", "-o", "json")
	doc := gpuJSON(t, o)
	zero, one := 0, 1
	node := func(id string, at *int) gpuwatch.Node {
		return gpuwatch.Node{
			Experiment: "r", Run: "r-1", ID: id, GPU: at, State: "updating", MemoryBytes: 5e9, PeakMemoryBytes: 7e9, ResidentBytes: 2e9,
			TransientBytes: 4e9, BudgetBytes: 9e9,
		}
	}
	require.Equal(t, []gpuwatch.Node{node("node_0", &zero), node("node_1", &zero), node("node_2", &one)}, doc.Nodes)
	used := int64(49590 << 20)
	require.Equal(t, []int64{10e9, used - 10e9}, []int64{doc.Devices[0].NodesBytes, doc.Devices[0].UnattributedBytes})
	require.Equal(t, []int64{5e9, 4800<<20 - 5e9}, []int64{doc.Devices[1].NodesBytes, doc.Devices[1].UnattributedBytes})
	require.Equal(t, used-10e9+4800<<20-5e9, doc.UnattributedBytes)
	require.Equal(t, []string{"memory_rising 0", "others 0"}, codes(t, o, "warnings"), "the trend is what the run has recorded")
	require.Equal(t, []string{"idle 0"}, codes(t, o, "recommendations"))

	text := onGPUs(t, home, cards, "gpu", "--once")
	require.Regexp(t, `(?m)^node_2 +GPU 1 +updating +2\.0 GB +4\.0 GB +5\.0 GB +7\.0 GB +9\.0 GB$`, text.stdout)
	require.Contains(t, text.stdout, "  nodes 10.0 GB · unattributed 42.0 GB\n")
}

func TestGPUIgnoresRunsThatHaveEnded(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	aRun(t, home, store.RunDone)
	require.Empty(t, gpuJSON(t, onGPUs(t, home, t4, "gpu", "-o", "json")).Nodes)
}

func TestGPUWithADatabaseItCannotRead(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(home, "swarm.db"), []byte("not a database, but long enough to be looked at\n"), 0o600))
	o := onGPUs(t, home, t4, "gpu", "-o", "json")
	require.Len(t, gpuJSON(t, o).Devices, 1, "the GPU is shown all the same")
	require.Equal(t, []string{"database <nil>"}, codes(t, o, "warnings"))
}

// openTerminal returns both ends of a pseudo-terminal.
func openTerminal(t *testing.T) (ours, theirs *os.File) {
	t.Helper()
	ours, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { ours.Close() })
	var number, unlock uint32
	for _, call := range []struct {
		request uintptr
		value   *uint32
	}{{syscall.TIOCSPTLCK, &unlock}, {syscall.TIOCGPTN, &number}} {
		_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, ours.Fd(), call.request, uintptr(unsafe.Pointer(call.value)))
		require.Zero(t, errno)
	}
	theirs, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { theirs.Close() })
	return ours, theirs
}

// watcher collects what a terminal shows.
type watcher struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (w *watcher) follow(from *os.File) {
	chunk := make([]byte, 4096)
	for {
		n, err := from.Read(chunk)
		w.mu.Lock()
		w.b.Write(chunk[:n])
		w.mu.Unlock()
		if err != nil {
			return
		}
	}
}

func (w *watcher) shows(text string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Contains(w.b.String(), text)
}

// While the view is open, a GPU is lost and an XID is reported. Then q, or a signal, closes the view.
func TestGPULiveView(t *testing.T) {
	t.Parallel()
	for _, leave := range []string{"q", "SIGTERM"} {
		t.Run(leave, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "devices")
			write := func(text string) {
				require.NoError(t, os.WriteFile(file+".new", []byte(text), 0o600))
				require.NoError(t, os.Rename(file+".new", file))
			}
			write(t4 + ":temp=41")
			ours, theirs := openTerminal(t)
			cmd := swarmCommand(t, t.TempDir(), "gpu", "--interval", "100ms")
			cmd.Env = append(cmd.Env, "SWARM_NVML_LIBRARY="+fakeNVML(t), "FAKE_NVML_FILE="+file, "TERM=xterm", "NO_COLOR=1")
			cmd.Stdin, cmd.Stdout = theirs, theirs
			cmd.Stderr = theirs
			require.NoError(t, cmd.Start())
			screen := &watcher{}
			go screen.follow(ours)
			shown := func(text string) {
				t.Helper()
				require.Eventually(t, func() bool { return screen.shows(text) }, patience, 10*time.Millisecond, "never shown: %q", text)
			}
			shown("Tesla T4")
			shown("41 °C")
			write(t4 + ":temp=41,xid=31")
			shown("page fault")
			write(t4 + ":lost")
			shown("fell off its bus")
			want := 0
			if leave == "q" {
				_, err := ours.WriteString("q")
				require.NoError(t, err)
			} else {
				require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
				want = 128 + int(syscall.SIGTERM)
			}
			require.Equal(t, want, waitFor(t, cmd))
		})
	}
}
