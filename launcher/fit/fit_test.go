package fit

import (
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/sapo-swarm/swarm/configs"
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
		Name:        "qwen2.5-0.5b",
		Shape:       configs.Shape{Layers: 24, Heads: 14, Width: 896, Context: 32768, Vocabulary: 151936, Parameters: 494_032_768},
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

func request(m configs.Model, gpus ...GPU) Request {
	return Request{
		Device: DeviceAuto, GPUs: gpus, Cores: 16, Memory: 128e9,
		Model: m, Table: table, Nodes: NodesAuto, SwarmSize: 8, Sequences: 64, Tokens: 240,
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

func TestGuideCountsForMemory(t *testing.T) {
	for gb, want := range map[int64]int{141: 8, 80: 8, 48: 6, 40: 6, 32: 4, 24: 3, 16: 1, 15: 1, 12: 1} {
		r := request(gpt2)
		r.GPUMemory = gb * 1e9
		p := plan(t, r)
		if p.Nodes != want || p.Device != DeviceCUDA || len(p.Placement) != want || p.Share != ShareStatic {
			t.Errorf("%d GB: %+v, want %d nodes", gb, p, want)
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
		{mib(0, "NVIDIA L4", 23034, 22560), 3, "guide table: NVIDIA L4"},
		{mib(0, "Tesla T4", 15360, 15000), 1, "guide table: T4 15GB"},
		{mib(0, "Tesla T4", 15109, 14900), 1, "guide table: T4 15GB"},
	}
	for _, tt := range tests {
		p := plan(t, request(gpt2, tt.gpu))
		rule := strings.Replace(tt.rule, "NVIDIA L4", "L4 24GB", 1)
		if p.Nodes != tt.nodes || p.Rule != rule {
			t.Errorf("%s: %d nodes by %q, want %d by %q", tt.gpu.Name, p.Nodes, p.Rule, tt.nodes, rule)
		}
		if !strings.HasSuffix(p.Why, ".") || !strings.Contains(p.Why, tt.gpu.Name) || p.Limit == "" {
			t.Errorf("%s: why %q, limit %q", tt.gpu.Name, p.Why, p.Limit)
		}
		if want := []string{"CUDA_VISIBLE_DEVICES=GPU-a"}; !slices.Equal(p.Environment(0), want) {
			t.Errorf("environment %v, want %v", p.Environment(0), want)
		}
	}
}

func TestPartlyUsedGPUCountsAsSmallerOne(t *testing.T) {
	p := plan(t, request(gpt2, mib(0, "NVIDIA A100-SXM4-80GB", 81920, 40000)))
	if p.Nodes != 6 || p.Rule != "guide table: as A100 40GB" {
		t.Errorf("%d nodes by %q", p.Nodes, p.Rule)
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
	if want := []int{0, 1, 2, 3, 4, 5, 6, 7}; !slices.Equal(where, want) || p.Rule != "guide memory" {
		t.Errorf("eight Qwen nodes over eight GPUs lie on %v by %q", where, p.Rule)
	}

	p = plan(t, request(gpt2, mib(0, "Tesla T4", 15360, 15000), mib(1, "NVIDIA L4", 23034, 22560), mib(2, "NVIDIA A100-SXM4-40GB", 40536, 1000)))
	if p.GPUs[0].Index != 1 || *p.Placement[0].GPU != 1 || p.Nodes != 4 {
		t.Errorf("most free memory first: %d nodes, placement starts on GPU %d", p.Nodes, *p.Placement[0].GPU)
	}
	if p.PerNode.Budget < p.PerNode.Resident+p.PerNode.Transient {
		t.Errorf("budget %d is below what a node takes", p.PerNode.Budget)
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
		{"little memory", nano, DeviceAuto, NodesAuto, 2, 3e9, 8, 2, 1, true, "experiment's swarm size 8"},
		{"very little memory", nano, DeviceAuto, NodesAuto, 2, 1e9, 2, 2, 1, true, "host memory"},
		{"gpt2 when it must be", gpt2, DeviceCPU, NodesAuto, 2, 23e9, 8, 2, 1, true, "experiment's swarm size 8"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := request(tt.model)
			r.Device, r.Nodes, r.Cores, r.Memory = tt.device, tt.nodes, tt.cores, tt.memory
			p := plan(t, r)
			if p.Nodes != tt.want || p.Slots != tt.slots || p.Threads != tt.threads || p.Limit != tt.limit || (p.MicroBatch > 0) != tt.halved {
				t.Errorf("%+v", p)
			}
			if p.Device != DeviceCPU || p.Share != ShareLease || p.Placement[0].GPU != nil || p.TorchDevice() != "cpu" {
				t.Errorf("%+v", p)
			}
		})
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
		{"too many for the card", func(r *Request) { r.Nodes, r.GPUs = "3", []GPU{t4} }, ErrDoesNotFit, []string{"3 nodes of gpt2", "19.5 GB", "15.7 GB free", "Try: --nodes auto, or --nodes 2"}},
		{"card too small for one", func(r *Request) { r.GPUMemory = 4e9 }, ErrDoesNotFit, []string{"6.5 GB", "4 GB free"}},
		{"no GPU for a large model", func(r *Request) { r.NoGPU = "no NVIDIA driver" }, ErrDoesNotFit, []string{"no NVIDIA driver", "--device cpu"}},
		{"cuda without a GPU", func(r *Request) { r.Device = DeviceCUDA; r.Model = nano }, ErrDoesNotFit, []string{"no usable GPU"}},
		{"too many for the host", func(r *Request) { r.Device, r.Nodes, r.Memory = DeviceCPU, "8", 8e9 }, ErrDoesNotFit, []string{"8 nodes of gpt2", "Try: --nodes auto"}},
		{"host too small for one", func(r *Request) { r.Device, r.Memory = DeviceCPU, 1e9 }, ErrDoesNotFit, []string{"1 node of gpt2", "Try: a smaller --model"}},
		{"above the swarm size", func(r *Request) { r.Nodes = "9" }, ErrRequest, []string{"swarm_size is 8"}},
		{"zero nodes", func(r *Request) { r.Nodes = "0" }, ErrRequest, []string{`"0"`, "auto, max or a number"}},
		{"nodes in words", func(r *Request) { r.Nodes = "many" }, ErrRequest, []string{`"many"`}},
		{"device", func(r *Request) { r.Device = "tpu" }, ErrRequest, []string{`"tpu"`, "auto, cpu or cuda"}},
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

func TestMaxTakesWhatMemoryHolds(t *testing.T) {
	r := request(gpt2, mib(0, "Tesla T4", 15360, 15000))
	r.Nodes = NodesMax
	if p := plan(t, r); p.Nodes != 2 || p.Limit != "GPU memory" {
		t.Errorf("%+v", p)
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
	for _, name := range []string{"device", "gpus", "nodes", "rule", "share", "per_node", "limit", "placement", "why"} {
		if fields[name] == nil {
			t.Errorf("%s is missing in %s", name, data)
		}
	}
}

func anyRequest(t *rapid.T) Request {
	r := request(rapid.SampledFrom([]configs.Model{gpt2, nano, qwen}).Draw(t, "model"))
	for i := range rapid.IntRange(0, 4).Draw(t, "gpus") {
		total := rapid.Int64Range(1<<30, 150<<30).Draw(t, "total")
		r.GPUs = append(r.GPUs, GPU{Index: i, UUID: "GPU", Name: "card", MemoryTotal: total, MemoryFree: rapid.Int64Range(0, total).Draw(t, "free")})
	}
	r.Cores = rapid.IntRange(1, 128).Draw(t, "cores")
	r.Memory = rapid.Int64Range(1<<28, 1<<38).Draw(t, "memory")
	r.SwarmSize = rapid.IntRange(1, 32).Draw(t, "swarm size")
	r.Device = rapid.SampledFrom([]string{DeviceAuto, DeviceCPU, DeviceCUDA}).Draw(t, "device")
	r.Nodes = rapid.SampledFrom([]string{NodesAuto, NodesMax, "1", "2", "7"}).Draw(t, "nodes")
	r.Sequences = rapid.IntRange(1, 200).Draw(t, "sequences")
	return r
}

func TestPlanNeverExceedsCapacity(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := anyRequest(t)
		p, err := New(r)
		if err != nil {
			if !errors.Is(err, ErrDoesNotFit) && !errors.Is(err, ErrRequest) {
				t.Fatal(err)
			}
			return
		}
		if again, _ := New(r); !reflect.DeepEqual(p, again) {
			t.Fatalf("two plans for one request:\n%+v\n%+v", p, again)
		}
		if p.Nodes < 1 || p.Nodes > r.SwarmSize || len(p.Placement) != p.Nodes || p.Slots < 1 || p.Slots > p.Nodes || p.Threads < 1 {
			t.Fatalf("impossible plan %+v", p)
		}
		if p.Device == DeviceCPU {
			if took := int64(p.Nodes)*p.PerNode.Resident + int64(p.Slots)*p.PerNode.Transient; took > r.Memory {
				t.Fatalf("takes %d of %d bytes", took, r.Memory)
			}
			if p.Slots*p.Threads > max(r.Cores, p.Slots) {
				t.Fatalf("%d slots of %d threads on %d cores", p.Slots, p.Threads, r.Cores)
			}
			return
		}
		taken := map[int]int64{}
		for _, at := range p.Placement {
			taken[*at.GPU] += p.PerNode.Budget
		}
		for index, bytes := range taken {
			if bytes > r.GPUs[index].MemoryFree {
				t.Fatalf("GPU %d: budgets of %d bytes in %d free", index, bytes, r.GPUs[index].MemoryFree)
			}
		}
		if p.PerNode.Budget < p.PerNode.Resident+p.PerNode.Transient {
			t.Fatalf("budget %d below the footprint", p.PerNode.Budget)
		}
	})
}

func TestMoreMemoryNeverMeansFewerNodes(t *testing.T) {
	nodes := func(r Request) int {
		p, err := New(r)
		if err != nil {
			return 0
		}
		return p.Nodes
	}
	rapid.Check(t, func(t *rapid.T) {
		r := anyRequest(t)
		before := nodes(r)
		r.Memory += rapid.Int64Range(0, 1<<35).Draw(t, "more host memory")
		r.GPUs = slices.Clone(r.GPUs)
		for i := range r.GPUs {
			more := rapid.Int64Range(0, 1<<35).Draw(t, "more GPU memory")
			r.GPUs[i].MemoryTotal += more
			r.GPUs[i].MemoryFree += more
		}
		if r.Device == DeviceAuto && before > 0 && len(r.GPUs) > 0 && nodes(r) == 0 {
			t.Fatal("memory took nodes away")
		}
		if after := nodes(r); after < before {
			t.Fatalf("%d nodes with less memory, %d with more", before, after)
		}
	})
}
