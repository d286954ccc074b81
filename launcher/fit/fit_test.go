package fit

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/internal/units"
)

var (
	gpt2 = configs.Model{
		Name:        "gpt2",
		Shape:       configs.Shape{Layers: 12, Heads: 12, Width: 768, Context: 1024, Vocabulary: 50257, Parameters: 124_439_808},
		GuideMemory: configs.GuideMemory{Weights: 5e8, Forward: 4e9, GradientsAndOptimizer: 15e8, Working: 5e8},
	}
	nano = configs.Model{
		Name:  "nano",
		Shape: configs.Shape{Layers: 4, Heads: 4, Width: 128, Context: 256, Vocabulary: 257, Parameters: 859_008},
	}
	qwen = configs.Model{
		Name: "qwen2.5-0.5b",
		Shape: configs.Shape{
			Architecture: configs.Qwen2, Layers: 24, Heads: 14, KVHeads: 2, Width: 896, Inner: 4864, HeadSize: 64, Context: 32768,
			Vocabulary: 151936, Parameters: 494_032_768,
		},
		GuideMemory: configs.GuideMemory{Weights: 1e9, Forward: 93e8, GradientsAndOptimizer: 3e9, Working: 2e9},
	}
	// Guide 4's table.
	table = []configs.GPU{
		{Name: "T4 15GB", Match: []string{"Tesla T4"}, MemoryBytes: 145e8, Nodes: map[string]int{"gpt2": 1}},
		{Name: "A100 80GB", Match: []string{"A100-SXM4-80GB", "A100 80GB"}, MemoryBytes: 78e9, Nodes: map[string]int{"gpt2": 8}},
		{Name: "L4 24GB", Match: []string{"NVIDIA L4"}, MemoryBytes: 23e9, Nodes: map[string]int{"gpt2": 3}},
		{Name: "V100 32GB", Match: []string{"V100-SXM2-32GB"}, MemoryBytes: 31e9, Nodes: map[string]int{"gpt2": 4}},
		{Name: "A100 40GB", Match: []string{"A100-SXM4-40GB"}, MemoryBytes: 39e9, Nodes: map[string]int{"gpt2": 6}},
	}
)

// request is the paper's 8 / 0 on these GPUs.
func request(m configs.Model, gpus ...GPU) Request {
	return Request{
		Device: DeviceAuto, GPUs: gpus, Cores: 16, Memory: 128e9, Shm: 64e9,
		Model: m, Table: table, Nodes: NodesAuto, SwarmSize: 8,
		Settings: Settings{
			Prompts: 8, Generations: 8, Sequences: 64, PromptTokens: 768, NewTokens: 256, MicroBatch: 4, AutoBatchSize: true,
		},
	}
}

func mib(index int, name string, total, free int64) GPU {
	return GPU{Index: index, UUID: "GPU-" + string(rune('a'+index)), Name: name, MemoryTotal: total << 20, MemoryFree: free << 20}
}

func plan(t *testing.T, r Request) Plan {
	t.Helper()
	p, err := New(r)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// The plan gives the guide's counts, and each node's share of the card covers its estimate.
func TestGuideCountsForMemory(t *testing.T) {
	for gb, want := range map[int64]int{141: 8, 80: 8, 48: 6, 40: 6, 32: 4, 24: 3, 16: 1, 15: 1, 12: 1} {
		r := request(gpt2)
		r.GPUMemory = gb * 1e9
		p := plan(t, r)
		if p.Nodes != want || p.Device != DeviceCUDA || len(p.Placement) != want || p.Share != ShareStatic || p.MicroBatch != 4 {
			t.Errorf("%d GB: %+v, want %d nodes", gb, p, want)
		}
		if took := p.PerNode.Resident + p.PerNode.Transient; took > p.PerNode.Budget || int64(want)*p.PerNode.Budget > gb*1e9 {
			t.Errorf("%d GB: %d nodes take %d of a budget of %d", gb, want, took, p.PerNode.Budget)
		}
		if p.Environment(0) != nil {
			t.Errorf("%d GB: a card that isn't there has an environment", gb)
		}
	}
}

func TestGuideCountsForWhatDriversReport(t *testing.T) {
	tests := []struct {
		gpu   GPU
		nodes int
		rule  string
	}{
		{mib(0, "NVIDIA A100-SXM4-80GB", 81920, 81037), 8, "guide table: A100 80GB"},
		{mib(0, "NVIDIA A100 80GB PCIe", 81251, 80600), 8, "guide table: A100 80GB"},
		{mib(0, "NVIDIA H100 80GB HBM3", 81559, 81003), 8, "guide table: as A100 80GB"},
		{mib(0, "NVIDIA A100-SXM4-40GB", 40536, 39900), 6, "guide table: A100 40GB"},
		{mib(0, "Tesla V100-SXM2-32GB", 32510, 32200), 4, "guide table: V100 32GB"},
		{mib(0, "NVIDIA L4", 23034, 22560), 3, "guide table: L4 24GB"},
		{mib(0, "Tesla T4", 15360, 15000), 1, "guide table: T4 15GB"},
		{mib(0, "Tesla T4", 15109, 14900), 1, "guide table: T4 15GB"},
	}
	for _, tt := range tests {
		p := plan(t, request(gpt2, tt.gpu))
		if p.Nodes != tt.nodes || p.Rule != tt.rule {
			t.Errorf("%s: %d nodes by %q, want %d by %q", tt.gpu.Name, p.Nodes, p.Rule, tt.nodes, tt.rule)
		}
		if !strings.HasSuffix(p.Why, ".") || !strings.Contains(p.Why, tt.gpu.Name) || p.Limit == "" {
			t.Errorf("%s: why %q, limit %q", tt.gpu.Name, p.Why, p.Limit)
		}
		if want := []string{"CUDA_VISIBLE_DEVICES=GPU-a"}; !slices.Equal(p.Environment(0), want) {
			t.Errorf("environment %v, want %v", p.Environment(0), want)
		}
	}
}

// The nodes' host memory comes out of a GPU that shares the host's memory: an offload frees nothing there.
func TestUnifiedMemoryCountsOnce(t *testing.T) {
	gb10 := GPU{UUID: "GPU-a", Name: "NVIDIA GB10", MemoryTotal: 128e9, MemoryFree: 100e9, Unified: true} // --host-memory 40GB leaves 40
	own := gb10
	own.MemoryFree, own.Unified = 40e9, false
	for _, gpu := range []GPU{own, gb10} {
		r := request(gpt2, gpu)
		r.Memory, r.Nodes, r.Share, r.SwarmSize = 40e9, NodesMax, ShareLease, 1000
		p := plan(t, r)
		r.Settings.OptimizerOffload = true
		offload := plan(t, r)
		most := p.Shared + int64(p.Nodes)*(p.PerNode.Resident+p.HostBytes) + p.Rooms[0].LeaseBytes
		if gpu.Unified != (most <= percent(40e9, hostShare)) || gpu.Unified != (p.HostBytes == 0) || gpu.Unified != (offload.Nodes <= p.Nodes) {
			t.Errorf("unified %t: %d nodes take %d, %d with offload; host %d", gpu.Unified, p.Nodes, most, offload.Nodes, p.HostBytes)
		}
		if want := p.PerNode.Budget - cudaContext - NodeProcess - cudaOwn; gpu.Unified && p.PerNode.Cap() != want {
			t.Errorf("the allocator may take %d of %d", p.PerNode.Cap(), want)
		}
	}
}

// The targets for GPT-2 nodes on 80 GB and 15 GB, by the estimate.
func TestTargets(t *testing.T) {
	r := request(gpt2, mib(0, "NVIDIA H100 80GB HBM3", 81559, 81003))
	p := plan(t, r)
	if p.Nodes != 8 || p.Expected > 52e9 {
		t.Errorf("8 nodes are expected to take %s, not at most 52 GB", units.BytesShort(p.Expected))
	}
	r.SwarmSize, r.Nodes, r.Share = 24, NodesMax, ShareLease
	if p := plan(t, r); p.Nodes != 24 {
		t.Errorf("%d nodes under lease on 80 GB, want 24", p.Nodes)
	}
	r = request(gpt2)
	r.GPUMemory, r.Nodes = 15e9, "8"
	_, err := New(r)
	if err == nil || !strings.Contains(err.Error(), "or --optimizer-offload") {
		t.Errorf("8 nodes on 15 GB: %v", err)
	}
	r.Settings.OptimizerOffload = true
	if p := plan(t, r); p.Nodes != 8 || p.Share != ShareLease {
		t.Errorf("%+v", p)
	}
}

func TestPartlyUsedGPUCountsAsSmallerOne(t *testing.T) {
	p := plan(t, request(gpt2, mib(0, "NVIDIA A100-SXM4-80GB", 81920, 40000)))
	if p.Nodes != 6 || p.Rule != "guide table: as A100 40GB" || p.Rooms[0].OthersBytes != 41920<<20 {
		t.Errorf("%d nodes by %q beside %d bytes of others", p.Nodes, p.Rule, p.Rooms[0].OthersBytes)
	}
}

// A limit makes a plan treat a GPU as a smaller one.
func TestGPULimit(t *testing.T) {
	r := request(gpt2, mib(0, "NVIDIA H100 80GB HBM3", 81559, 81003))
	r.GPULimit = 24e9
	p := plan(t, r)
	if p.Nodes != 3 || p.Rule != "guide table: as L4 24GB" || int64(p.Nodes)*p.PerNode.Budget > 24e9 || p.Environment(0) == nil {
		t.Errorf("%+v", p)
	}
}

func TestSeveralGPUs(t *testing.T) {
	var gpus []GPU
	for i := range 8 {
		gpus = append(gpus, mib(i, "Tesla V100-SXM2-16GB", 16160, 15900))
	}
	p := plan(t, request(qwen, gpus...))
	var where []int
	for _, at := range p.Placement {
		where = append(where, *at.GPU)
	}
	if want := []int{0, 1, 2, 3, 4, 5, 6, 7}; !slices.Equal(where, want) || p.Rule != "guide memory" || len(p.Rooms) != 8 {
		t.Errorf("eight Qwen nodes over eight GPUs lie on %v by %q", where, p.Rule)
	}

	p = plan(t, request(gpt2, mib(0, "Tesla T4", 15360, 15000), mib(1, "NVIDIA L4", 23034, 22560), mib(2, "NVIDIA A100-SXM4-40GB", 40536, 1000)))
	if p.GPUs[0].Index != 1 || *p.Placement[0].GPU != 1 || p.Nodes != 4 || len(p.Rooms) != 2 {
		t.Errorf("most free memory first: %d nodes, placement starts on GPU %d", p.Nodes, *p.Placement[0].GPU)
	}
}

func TestNodeOnSeveralGPUs(t *testing.T) {
	r := request(qwen, mib(0, "A", 16160, 15900), mib(1, "A", 16160, 15000), mib(2, "A", 16160, 15900), mib(3, "A", 16160, 15000), mib(4, "A", 16160, 8000))
	r.GPUsPerNode = 2
	p := plan(t, r)
	if p.Nodes != 2 || p.Ranks() != 2 || !slices.Equal(p.Placement[0].GPUs, []int{0, 2}) || !slices.Equal(p.Placement[1].GPUs, []int{1, 3}) {
		t.Fatalf("%d nodes, placement %+v", p.Nodes, p.Placement)
	}
	if want := []string{"CUDA_VISIBLE_DEVICES=GPU-b,GPU-d"}; !slices.Equal(p.Environment(1), want) {
		t.Errorf("environment %v, want %v", p.Environment(1), want)
	}
	for name, change := range map[string]func(*Request){
		"Try: --gpus-per-node 5":     func(r *Request) { r.GPUsPerNode = 6 },
		"Try: docker run --shm-size": func(r *Request) { r.Shm = 64e6 },
	} {
		r := r
		change(&r)
		if _, err := New(r); !errors.Is(err, ErrDoesNotFit) || !strings.Contains(err.Error(), name) {
			t.Errorf("error %v, want %q", err, name)
		}
	}
}

// A hypothetical card on a hypothetical host: the T4 and the host memory of a free Colab hold eight nodes.
func TestADescribedHostLimitsAPlan(t *testing.T) {
	colab := request(gpt2)
	colab.GPUMemory, colab.Nodes, colab.Share, colab.Settings.OptimizerOffload = 15e9, "8", ShareLease, true
	for memory, holds := range map[int64]int{12.7e9: 8, 11e9: 7, 6e9: 3} {
		r := colab
		r.Memory, r.HostMemory = 64e9, memory
		p, err := New(r)
		if holds == 8 {
			each := int64(NodeProcess + cudaOwn + 8*gpt2.Shape.Parameters)
			if err != nil || p.Nodes != 8 || p.HostBytes != each || p.Shared != cudaHost || p.Shared+8*p.HostBytes > percent(memory, hostShare) {
				t.Errorf("%d bytes of host memory: %+v, %v", memory, p, err)
			}
			continue
		}
		want := fmt.Sprintf("the host holds %d (host memory: %s may be used, all nodes share 500 MB, and each takes 1.3 GB). Try: --nodes auto, or --nodes %d",
			holds, units.BytesShort(percent(memory, hostShare)), holds)
		if !errors.Is(err, ErrDoesNotFit) || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
		r.Nodes = NodesMax
		if p := plan(t, r); p.Nodes != holds || p.Limit != "host memory" {
			t.Errorf("%d nodes, limited by %s; want %d", p.Nodes, p.Limit, holds)
		}
	}
	apart := colab
	apart.HostMemory, apart.Apart = 12.7e9, true
	if _, err := New(apart); !errors.Is(err, ErrDoesNotFit) {
		t.Errorf("engines that share nothing: %v", err)
	}
	colab.Memory = 6e9
	if p := plan(t, colab); p.Nodes != 8 {
		t.Errorf("%d nodes: the host of a card that isn't there counts only where it was described", p.Nodes)
	}
}

// Memory that nodes of a CPU share counts once for any number of nodes.
func TestSharedMemoryCountsOnce(t *testing.T) {
	for _, apart := range []bool{false, true} {
		var expected []int64
		for _, nodes := range []string{"1", "2", "8"} {
			r := request(nano)
			r.Device, r.Nodes, r.Cores, r.Memory, r.Apart, r.Share = DeviceCPU, nodes, 1, 64e9, apart, ShareLease
			p := plan(t, r)
			if context := int64(forkOwn + NodeProcess); !apart && (p.Shared != interpreter || p.PerNode.Shared != interpreter || p.PerNode.Context != context) ||
				apart && (p.Shared != 0 || p.PerNode.Context != interpreter+context) {
				t.Errorf("%+v", p)
			}
			if want := p.Shared + int64(p.Nodes)*p.PerNode.Resident + p.PerNode.Transient; p.Expected != want {
				t.Errorf("expected %d, want %d", p.Expected, want)
			}
			expected = append(expected, p.Expected)
		}
		each := int64(forkOwn + NodeProcess + cpuBLAS + 12*nano.Shape.Parameters)
		if apart {
			each += interpreter
		}
		if expected[1]-expected[0] != each || expected[2]-expected[1] != 6*each {
			t.Errorf("apart %v: %v for 1, 2 and 8 nodes, each %d", apart, expected, each)
		}
	}
}

func TestHostLimitsGPUPlans(t *testing.T) {
	h100 := mib(0, "NVIDIA H100 80GB HBM3", 81559, 81003)
	r := request(gpt2, h100)
	r.Memory = 2e9
	if p := plan(t, r); p.Nodes != 4 || p.Limit != "host memory" {
		t.Errorf("%d nodes, limited by %s", p.Nodes, p.Limit)
	}
	r = request(gpt2, h100)
	r.Cores = 2
	if p := plan(t, r); p.Nodes != 8 || p.Share != ShareLease || p.Slots != 2 || p.Rooms[0].Slots != 2 {
		t.Errorf("on 2 cores: %+v", p)
	}
}

func TestShares(t *testing.T) {
	tests := []struct {
		name   string
		change func(*Request)
		share  string
		nodes  int
		slots  int
	}{
		{"all fit at once", func(*Request) {}, ShareStatic, 8, 8},
		{"lease asked for", func(r *Request) { r.Share = ShareLease }, ShareLease, 8, 8},
		{"more than fit at once", func(r *Request) { r.SwarmSize, r.Nodes = 24, NodesMax }, ShareLease, 24, 9},
		{"static asked for", func(r *Request) { r.SwarmSize, r.Nodes, r.Share = 24, NodesMax, ShareStatic }, ShareStatic, 24, 24},
		{"MPS", func(r *Request) { r.Share = ShareMPS }, ShareMPS, 8, 8},
		{"MPS can be tried", func(r *Request) { r.MPS = true }, ShareMPS, 8, 8},
		{"static asked for, though MPS can be tried", func(r *Request) { r.MPS, r.Share = true, ShareStatic }, ShareStatic, 8, 8},
		{"more than fit at once, though MPS can be tried", func(r *Request) { r.MPS, r.SwarmSize, r.Nodes = true, 24, NodesMax }, ShareLease, 24, 9},
		{"fewer cores than nodes, though MPS can be tried", func(r *Request) { r.MPS, r.Cores = true, 7 }, ShareLease, 8, 7},
		{"alone on its GPU", func(r *Request) { r.MPS, r.SwarmSize = true, 1 }, ShareStatic, 1, 1},
		{"more than MPS takes", func(r *Request) { r.MPS, r.Model, r.SwarmSize, r.Nodes = true, nano, 49, "49" }, ShareStatic, 49, 49},
		{"48 MPS clients", func(r *Request) { r.Model, r.SwarmSize, r.Nodes, r.Share = nano, 100, NodesMax, ShareMPS }, ShareMPS, 48, 48},
	}
	for _, tt := range tests {
		r := request(gpt2, mib(0, "NVIDIA H100 80GB HBM3", 81559, 81003))
		r.Cores = 128
		r.Memory = 1e12
		tt.change(&r)
		p := plan(t, r)
		if p.Share != tt.share || p.Nodes != tt.nodes || p.Slots != tt.slots {
			t.Errorf("%s: %d nodes, %s, %d at a time", tt.name, p.Nodes, p.Share, p.Slots)
		}
	}
}

// A measured footprint overrides the guide.
func TestMeasuredFootprintDecides(t *testing.T) {
	r := request(gpt2, mib(0, "Tesla T4", 15360, 15000))
	r.Measured = &Measured{
		Resident: 1_500_000_000, GenerateBase: 1e8, GeneratePerSequence: 25e6, UpdateBase: 600e6, UpdatePerSequence: 800e6,
		Origin: "profile", Torch: "2.11.0", GPU: "Tesla T4",
	}
	p := plan(t, r)
	if p.Rule != "measured footprint" || p.Source != SourceMeasured || p.Nodes != 6 {
		t.Errorf("%d nodes by %q from %s", p.Nodes, p.Rule, p.Source)
	}
	if want := cudaContext + int64(1_500_000_000); p.PerNode.Resident != want {
		t.Errorf("resident %d, want %d with the context", p.PerNode.Resident, want)
	}
	if want := int64(600e6+2*800e6) * 110 / 100; p.MicroBatch != 2 || p.PerNode.Update != want {
		t.Errorf("an update of %d takes %d, want %d", p.MicroBatch, p.PerNode.Update, want)
	}
}

func TestMicroBatch(t *testing.T) {
	tests := []struct {
		name             string
		change           func(*Settings)
		memory           int64
		update, generate int
	}{
		{"the whole batch", func(s *Settings) { s.MicroBatch = 0 }, 80e9, 0, 0},
		{"halved until it fits", func(s *Settings) { s.MicroBatch = 0 }, 8e9, 4, 0},
		{"accumulation", func(s *Settings) { s.MicroBatch, s.GradientAccumulationSteps = 0, 7 }, 80e9, 10, 0},
		{"micro_batch is a limit", func(s *Settings) { s.GradientAccumulationSteps = 2 }, 80e9, 4, 0},
		{"completions in parts", func(s *Settings) { s.Prompts, s.Generations = 32, 32 }, 15e9, 4, 512},
	}
	for _, tt := range tests {
		r := request(gpt2)
		r.GPUMemory, r.Nodes = tt.memory, "1"
		tt.change(&r.Settings)
		if p := plan(t, r); p.MicroBatch != tt.update || p.GenerateBatch != tt.generate {
			t.Errorf("%s: %d and %d at a time, want %d and %d", tt.name, p.MicroBatch, p.GenerateBatch, tt.update, tt.generate)
		}
	}
	r := request(gpt2)
	r.GPUMemory = 5e9
	r.Settings.AutoBatchSize = false
	if _, err := New(r); !errors.Is(err, ErrDoesNotFit) || !strings.Contains(err.Error(), "with auto_batch_size ") {
		t.Errorf("a fixed micro-batch of 4 on 5 GB: %v", err)
	}
}

func TestChanges(t *testing.T) {
	t4 := request(gpt2, mib(0, "Tesla T4", 15360, 15000))
	p := plan(t, t4)
	for _, want := range []string{"--nodes max: 6 nodes, 1 computes at a time", "swarm profile: measured figures instead of these estimates"} {
		if !slices.Contains(p.Changes, want) {
			t.Errorf("changes %q lack %q", p.Changes, want)
		}
	}
	t4.Nodes = NodesMax
	if p := plan(t, t4); !slices.Contains(p.Changes, "--optimizer-offload: 8 nodes instead of 6") {
		t.Errorf("changes %q", p.Changes)
	}
}

func TestMIGIsNotUsed(t *testing.T) {
	split := mib(0, "NVIDIA A100-SXM4-80GB", 81920, 81037)
	split.MIG = true
	r := request(gpt2, split)
	r.NoGPU = "every visible GPU is in MIG mode"
	if _, err := New(r); !errors.Is(err, ErrDoesNotFit) || !strings.Contains(err.Error(), "MIG") {
		t.Errorf("error %v", err)
	}
}

func TestCPU(t *testing.T) {
	tests := []struct {
		name                 string
		model                configs.Model
		device, nodes        string
		cores                int
		memory               int64
		want, slots, threads int
		halved               bool
		limit                string
	}{
		{"eight on two cores", nano, DeviceAuto, NodesAuto, 2, 23e9, 8, 2, 1, false, "experiment's swarm size 8"},
		{"eight on sixteen cores", nano, DeviceAuto, NodesAuto, 16, 64e9, 8, 8, 2, false, "experiment's swarm size 8"},
		{"three asked for", nano, DeviceCPU, "3", 8, 64e9, 3, 3, 2, false, "--nodes 3"},
		{"little memory", nano, DeviceAuto, NodesAuto, 2, 0.965e9, 8, 1, 2, false, "experiment's swarm size 8"},
		{"completions in parts", gpt2, DeviceCPU, "2", 2, 8.381e9, 2, 2, 1, true, "--nodes 2"},
		{"very little memory", nano, DeviceAuto, NodesAuto, 2, 0.539e9, 2, 2, 1, false, "host memory"},
		{"gpt2 when it must be", gpt2, DeviceCPU, NodesAuto, 2, 23e9, 8, 2, 1, false, "experiment's swarm size 8"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := request(tt.model)
			r.Device, r.Nodes, r.Cores, r.Memory = tt.device, tt.nodes, tt.cores, tt.memory
			if tt.model.Name == "nano" {
				r.Settings.PromptTokens, r.Settings.NewTokens = 192, 48
			}
			r.Settings.MicroBatch = 0
			p := plan(t, r)
			smaller := p.MicroBatch > 0 || p.GenerateBatch > 0
			if p.Nodes != tt.want || p.Slots != tt.slots || p.Threads != tt.threads || p.Limit != tt.limit || smaller != tt.halved {
				t.Errorf("%+v", p)
			}
			if p.Device != DeviceCPU || p.Share != ShareLease || p.Placement[0].GPU != nil || p.TorchDevice() != "cpu" || p.Rooms[0].Slots != p.Slots {
				t.Errorf("%+v", p)
			}
		})
	}
}

func TestCPUFallbackOnlyWhereAllowed(t *testing.T) {
	small := mib(0, "Tesla K20", 2048, 2000)
	for _, gpus := range [][]GPU{nil, {small}} {
		r := request(gpt2, gpus...)
		if _, err := New(r); !errors.Is(err, ErrDoesNotFit) {
			t.Errorf("on %d GPUs: %v", len(gpus), err)
		}
		r.CPUFallback = true
		if p := plan(t, r); p.Device != DeviceCPU || !strings.Contains(p.Why, "as cpu_fallback allows") {
			t.Errorf("on %d GPUs: %+v", len(gpus), p)
		}
	}
}

func TestErrors(t *testing.T) {
	t4 := mib(0, "Tesla T4", 15360, 15000)
	tests := []struct {
		name   string
		change func(*Request)
		is     error
		says   []string
	}{
		{"too many for the card", func(r *Request) { r.Nodes, r.GPUs = "7", []GPU{t4} }, ErrDoesNotFit, []string{"7 nodes of gpt2", "14.4 GB", "15.7 GB free", "Try: --nodes auto, --nodes 6, or --optimizer-offload"}},
		{"too many at once", func(r *Request) { r.Nodes, r.Share, r.GPUs = "6", ShareStatic, []GPU{t4} }, ErrDoesNotFit, []string{"enough for 4", "Try: --nodes auto, --nodes 4, --share lease, or --optimizer-offload"}},
		{"card too small for one", func(r *Request) { r.GPUMemory = 3e9 }, ErrDoesNotFit, []string{"at least 3.4 GB", "3 GB free", "with gradient_checkpointing 2.8 GB, with optimizer_offload 1.8 GB and with param_offload 1.8 GB", "--gradient-checkpointing, or a smaller --model"}},
		{"no GPU for a large model", func(r *Request) { r.NoGPU = "no NVIDIA driver" }, ErrDoesNotFit, []string{"no NVIDIA driver", "--device cpu"}},
		{"cuda without a GPU", func(r *Request) { r.Device = DeviceCUDA; r.Model = nano }, ErrDoesNotFit, []string{"no usable GPU"}},
		{"too little free memory", func(r *Request) { r.GPUs, r.MinGPUMemory = []GPU{t4}, 16e9 }, ErrDoesNotFit, []string{"none has 16 GB free", "Tesla T4 has 15.7 GB", "--wait-for-gpu"}},
		{"never enough memory", func(r *Request) { r.GPUs, r.MinGPUMemory = []GPU{t4}, 60e9 }, ErrDoesNotFit, []string{"none has 60 GB free", "the largest has 16.1 GB in all. Try: a smaller --min-gpu-memory"}},
		{"others' memory", func(r *Request) { r.GPUs = []GPU{mib(0, "Tesla T4", 15360, 2000)} }, ErrDoesNotFit, []string{"a larger GPU, --wait-for-gpu 60m, a smaller --model"}},
		{"two nodes where one fits on a lower rung", func(r *Request) { r.GPUMemory, r.Nodes = 3e9, "2" }, ErrDoesNotFit, []string{"--nodes auto --gradient-checkpointing"}},
		{"a MIG GPU's remedy", func(r *Request) { r.NoGPU = "all are in MIG mode. Try: sudo nvidia-smi -mig 0" }, ErrDoesNotFit, []string{"(all are in MIG mode). Try: sudo nvidia-smi -mig 0, --model nano, or --device cpu"}},
		{"too little host memory for a GPU", func(r *Request) { r.GPUs, r.Memory = []GPU{t4}, 0.8e9 }, ErrDoesNotFit, []string{"800 MB of host memory", "720 MB may be used"}},
		{"too many for the host", func(r *Request) { r.Device, r.Nodes, r.Memory = DeviceCPU, "8", 8e9 }, ErrDoesNotFit, []string{"8 nodes of gpt2", "Try: --nodes auto"}},
		{"host too small for one", func(r *Request) { r.Device, r.Memory = DeviceCPU, 1e9 }, ErrDoesNotFit, []string{"1 node of gpt2", "Try: a smaller --model"}},
		{"above the swarm size", func(r *Request) { r.Nodes = "9" }, ErrRequest, []string{"swarm_size is 8"}},
		{"zero nodes", func(r *Request) { r.Nodes = "0" }, ErrRequest, []string{`"0"`, "auto, max or a number"}},
		{"nodes in words", func(r *Request) { r.Nodes = "many" }, ErrRequest, []string{`"many"`}},
		{"device", func(r *Request) { r.Device = "tpu" }, ErrRequest, []string{`"tpu"`, "auto, cpu or cuda"}},
		{"share", func(r *Request) { r.Share = "evenly" }, ErrRequest, []string{`"evenly"`, "auto, static, lease or mps"}},
		{"MPS on a CPU", func(r *Request) { r.Share, r.Device = ShareMPS, DeviceCPU }, ErrRequest, []string{"--share auto"}},
		{"GPU memory for a CPU", func(r *Request) { r.Device, r.GPUMemory = DeviceCPU, 40e9 }, ErrRequest, []string{"--device cuda"}},
		{"negative GPU memory", func(r *Request) { r.GPUMemory = -1 }, ErrRequest, nil},
		{"swarm size", func(r *Request) { r.SwarmSize = 0 }, ErrRequest, []string{"swarm_size 0"}},
		{"model without a shape", func(r *Request) { r.Model.Shape = configs.Shape{} }, ErrRequest, []string{"gpt2"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := request(gpt2)
			tt.change(&r)
			_, err := New(r)
			if !errors.Is(err, tt.is) {
				t.Fatalf("error %v, want %v", err, tt.is)
			}
			for _, text := range tt.says {
				if !strings.Contains(err.Error(), text) {
					t.Errorf("error %q lacks %q", err, text)
				}
			}
		})
	}
}

// Others returns the part of its GPU that a node doesn't have.
func TestOthers(t *testing.T) {
	for _, share := range []string{ShareStatic, ShareLease} {
		r := request(gpt2, mib(0, "NVIDIA H100 80GB HBM3", 81559, 71003))
		r.Share, r.Cores = share, 2
		p := plan(t, r)
		room := p.Rooms[0]
		if got := p.Others(3) + p.PerNode.Budget + room.ReserveBytes; got > 81559<<20 || got < 81559<<20-8 {
			t.Errorf("%s: a node's, the others' and the reserve are %d of %d", share, got, int64(81559)<<20)
		}
	}
}

func TestPlanAsJSON(t *testing.T) {
	data, err := json.Marshal(plan(t, request(nano)))
	if err != nil {
		t.Fatal(err)
	}
	var fields map[string]any
	if err := json.Unmarshal(data, &fields); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"device", "gpus", "nodes", "rule", "share", "per_node", "limit", "placement", "why", "rooms", "breakdown", "changes"} {
		if fields[name] == nil {
			t.Errorf("%s is missing in %s", name, data)
		}
	}
}

// RowsAtOnce returns the most rows of maximum length that fit into one pass if each prompt has that many generations.
// Exactly so many fit, in any distribution over prompts.
func TestRowsAtOnce(t *testing.T) {
	for _, x := range []struct {
		cuda                      bool
		prompt, next, generations int
		want                      int
	}{
		{false, 192, 48, 8, 5},     // 191 + 5 x 48 = 431 of 448
		{false, 192, 48, 1, 1},     // 239 each
		{false, 32, 50, 8, 8},      // 431
		{false, 16, 16, 4, 22},     // five groups of 79, and the remaining 53 fit two more rows
		{false, 768, 256, 8, 1},    // a single row may exceed the limit
		{true, 768, 256, 1, 8},     // 1023 each
		{true, 768, 256, 8, 8 + 7}, // a group weighs 4158, 7 of one 3710
		{true, 1, 1, 2, 8192},
	} {
		if got := RowsAtOnce(x.cuda, x.prompt, x.next, x.generations); got != x.want {
			t.Errorf("%+v: %d rows", x, got)
		}
	}
}

// On a CPU, passes ignore micro_batch, and so does the memory of an update, measured or not.
func TestMicroBatchSavesNothingOnACPU(t *testing.T) {
	for _, measured := range []*Measured{nil, {Resident: 2e7, UpdateBase: 5e6, UpdatePerSequence: 4e6, GenerateBase: 1e6, GeneratePerSequence: 1e5}} {
		var updates []int64
		for _, micro := range []int{1, 4, 0} {
			r := request(nano)
			r.Measured = measured
			r.Settings.PromptTokens, r.Settings.NewTokens, r.Settings.MicroBatch = 192, 48, micro
			p := plan(t, r)
			if p.MicroBatch != micro {
				t.Errorf("micro_batch %d became %d", micro, p.MicroBatch)
			}
			updates = append(updates, p.PerNode.Update)
		}
		if updates[0] != updates[1] || updates[0] != updates[2] || measured != nil && updates[0] != 5e6+5*4e6 {
			t.Errorf("updates of %d bytes", updates)
		}
	}
}

// A pass of rows that share prompts is as full as a pass of single rows. If only one row of maximum length fits, the
// pass counts no less.
func TestAnUpdateCountsAFullPass(t *testing.T) {
	s := request(nano).Settings
	s.PromptTokens, s.NewTokens = 192, 48
	at := func(rows int) string {
		for _, c := range Estimate(nano, DeviceCPU, s, configs.AtOnce{Generate: 1, Update: rows}) {
			if c.Name == "activations" {
				return units.BytesShort(c.Bytes / (12016 * 4)) // positions
			}
		}
		return ""
	}
	for rows, want := range map[int]int64{1: 239, 2: 448, 64: 448} {
		if got := at(rows); got != units.BytesShort(want) {
			t.Errorf("%d rows: %s positions, want %d", rows, got, want)
		}
	}
	for _, c := range Estimate(gpt2, DeviceCUDA, request(gpt2).Settings, configs.AtOnce{Generate: 1, Update: 1}) {
		if c.Name == "attention mask" && c.Bytes == 4*256*1024 {
			return
		}
	}
	t.Error("no attention mask of 256 x 1023 positions, in rows of 16")
}
