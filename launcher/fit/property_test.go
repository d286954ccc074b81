package fit

import (
	"errors"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/sapo-swarm/swarm/configs"
)

// thousandths and between draw more evenly than rapid's numbers, which are mostly small. Small memory sizes yield no
// plan.
var thousandths = func() (all []int64) {
	for i := range int64(1001) {
		all = append(all, i)
	}
	return all
}()

func between(t *rapid.T, low, high int64, name string) int64 {
	return low + (high-low)/1000*rapid.SampledFrom(thousandths).Draw(t, name)
}

func anyRequest(t *rapid.T) Request {
	r := request(rapid.SampledFrom([]configs.Model{gpt2, nano, qwen}).Draw(t, "model"))
	for i := range rapid.SampledFrom([]int{4, 2, 4, 1, 0}).Draw(t, "gpus") {
		total := between(t, rapid.SampledFrom([]int64{12 << 30, 150 << 30}).Draw(t, "most"), 1<<30, "total")
		r.GPUs = append(r.GPUs, GPU{Index: i, UUID: "GPU", Name: "card", MemoryTotal: total, MemoryFree: between(t, total, 0, "free")})
	}
	r.Cores = int(between(t, 1, 128001, "cores")/1000) + 1
	r.Memory = between(t, 1<<38, 1<<28, "memory")
	if len(r.GPUs) == 1 {
		r.GPUs[0].Unified = rapid.Bool().Draw(t, "unified")
	}
	r.Shm = rapid.SampledFrom([]int64{-1, 0, 64 << 20, 1 << 30, 64 << 30}).Draw(t, "shm")
	r.SwarmSize = rapid.SampledFrom([]int{64, 8, 24, 7}).Draw(t, "swarm size")
	r.GPUsPerNode = rapid.SampledFrom([]int{2, 1, 2, 0}).Draw(t, "gpus per node")
	r.CPUFallback = rapid.Bool().Draw(t, "cpu fallback")
	r.GPULimit = rapid.SampledFrom([]int64{0, 0, 0, 15e9}).Draw(t, "limit")
	r.MinGPUMemory = rapid.SampledFrom([]int64{0, 0, 0, 4e9}).Draw(t, "min GPU memory")
	r.Device = rapid.SampledFrom([]string{DeviceCUDA, DeviceAuto, DeviceCPU}).Draw(t, "device")
	r.Nodes = rapid.SampledFrom([]string{NodesMax, NodesAuto, "7", "1"}).Draw(t, "nodes")
	r.Share = rapid.SampledFrom([]string{ShareAuto, ShareStatic, ShareLease, ShareMPS}).Draw(t, "share")
	if r.Device == DeviceCPU {
		r.GPULimit = 0
	}
	s := &r.Settings
	s.Precision = rapid.SampledFrom([]string{"auto", "fp32", "bf16", "fp16"}).Draw(t, "precision")
	s.GradientCheckpointing = rapid.Bool().Draw(t, "checkpointing")
	s.OptimizerOffload = rapid.Bool().Draw(t, "optimizer offload")
	s.ParamOffload = rapid.Bool().Draw(t, "param offload")
	s.CUDAGraphs = rapid.Bool().Draw(t, "graphs")
	s.AutoBatchSize = rapid.Bool().Draw(t, "auto batch size")
	s.Prompts = rapid.IntRange(0, 64).Draw(t, "prompts")
	s.Sequences = rapid.IntRange(0, 200).Draw(t, "sequences")
	s.MicroBatch = rapid.IntRange(0, 16).Draw(t, "micro batch")
	s.GradientAccumulationSteps = rapid.IntRange(0, 9).Draw(t, "accumulation")
	if rapid.Bool().Draw(t, "companion") {
		r.Companions = []Companion{{Model: rapid.SampledFrom([]configs.Model{gpt2, nano, qwen}).Draw(t, "companion model")}}
	}
	if rapid.Bool().Draw(t, "measured") {
		r.Measured = &Measured{
			Resident:     between(t, 1e8, 4e9, "resident"),
			GenerateBase: between(t, 0, 1e9, "generate"), GeneratePerSequence: between(t, 0, 1e8, "a completion"),
			UpdateBase: between(t, 0, 1e9, "update"), UpdatePerSequence: between(t, 0, 1e9, "a sequence"),
		}
	}
	return r
}

func TestPlanNeverExceedsCapacity(t *testing.T) {
	planned := map[string]int{}
	defer func() {
		for _, kind := range []string{"cpu lease", "cpu static", "cuda lease", "cuda static", "cuda mps", "several GPUs a node", "several GPUs", "unified"} {
			if planned[kind] == 0 {
				t.Errorf("no plan was drawn for %s: %v", kind, planned)
			}
		}
	}()
	rapid.Check(t, func(t *rapid.T) {
		r := anyRequest(t)
		p, err := New(r)
		if err != nil {
			if !errors.Is(err, ErrDoesNotFit) && !errors.Is(err, ErrRequest) {
				t.Fatal(err)
			}
			return
		}
		planned[p.Device+" "+p.Share]++
		if p.Ranks() > 1 {
			planned["several GPUs a node"]++
		}
		if len(p.Rooms) == 1 && p.Device == DeviceCUDA && p.GPUs[0].Unified {
			planned["unified"]++
		}
		if len(p.Rooms) > 1 {
			planned["several GPUs"]++
		}
		if again, _ := New(r); !reflect.DeepEqual(p, again) {
			t.Fatalf("two plans for one request:\n%+v\n%+v", p, again)
		}
		if p.Nodes < 1 || p.Nodes > r.SwarmSize || len(p.Placement) != p.Nodes || p.Slots < 1 || p.Slots > p.Nodes || p.Threads < 1 {
			t.Fatalf("impossible plan %+v", p)
		}
		if p.PerNode.Budget < p.PerNode.Resident+p.PerNode.Transient {
			t.Fatalf("budget %d below the footprint %+v", p.PerNode.Budget, p.PerNode)
		}
		if s := Sum(p.Breakdown); s.Resident != p.PerNode.Resident || s.Generate != p.PerNode.Generate || s.Update != p.PerNode.Update {
			t.Fatalf("the breakdown sums to %+v, not %+v", s, p.PerNode)
		}
		if p.Slots*p.Threads > max(r.Cores, p.Slots) {
			t.Fatalf("%d slots of %d threads on %d cores", p.Slots, p.Threads, r.Cores)
		}
		checkRooms(t, r, p)
	})
}

// checkRooms fails if a room's nodes can exceed its memory while each stays within its budget and its lease.
func checkRooms(t *rapid.T, r Request, p Plan) {
	nodes := 0
	for _, room := range p.Rooms {
		nodes += room.Nodes
		members := []int64{r.Memory}
		if room.GPU != nil {
			members = nil
			for i := range p.Placement {
				if *p.Placement[i].GPU == *room.GPU {
					members = freeOf(r, p.Placement[i])
				}
			}
		}
		most := int64(room.Nodes) * p.PerNode.Budget
		if p.Share == ShareLease {
			most = int64(room.Nodes)*p.PerNode.Resident + room.LeaseBytes
			if p.KeepMemory && room.GPU != nil { // every node then holds it at the same time
				most = max(most, int64(room.Nodes)*p.PerNode.Budget)
				if int64(room.Nodes)*p.PerNode.Transient > room.LeaseBytes {
					t.Fatalf("%d nodes keep %d bytes each of %d", room.Nodes, p.PerNode.Transient, room.LeaseBytes)
				}
			}
			if p.PerNode.Transient > room.LeaseBytes {
				t.Fatalf("a phase of %d bytes in leases of %d", p.PerNode.Transient, room.LeaseBytes)
			}
		}
		if room.GPU == nil || r.GPUs[*room.GPU].Unified {
			most += p.Shared
			members = append(members, r.Memory)
		}
		for _, free := range members {
			if most > free {
				t.Fatalf("room %+v takes %d of %d free bytes", room, most, free)
			}
		}
		if p.Share == ShareMPS && room.Nodes > mpsClients {
			t.Fatalf("%d clients of MPS", room.Nodes)
		}
	}
	if nodes != p.Nodes {
		t.Fatalf("%d nodes in rooms, %d planned", nodes, p.Nodes)
	}
	if p.Device == DeviceCUDA && p.Shared+int64(p.Nodes)*p.HostBytes > r.Memory {
		t.Fatalf("%d nodes of %d bytes on a host of %d", p.Nodes, p.HostBytes, r.Memory)
	}
}

// freeOf returns the free memory of a node's GPUs.
func freeOf(r Request, at Placement) []int64 {
	gpus := at.GPUs
	if len(gpus) == 0 {
		gpus = []int{*at.GPU}
	}
	var free []int64
	for _, index := range gpus {
		free = append(free, r.GPUs[index].MemoryFree)
		if r.GPULimit > 0 {
			free = append(free, r.GPULimit)
		}
	}
	return free
}

func TestMoreMemoryNeverMeansFewerNodes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := anyRequest(t)
		less, err := New(r)
		if err != nil {
			return
		}
		r.Memory += between(t, 0, 1<<35, "more host memory")
		r.GPUs = slices.Clone(r.GPUs)
		for i := range r.GPUs {
			more := between(t, 0, 1<<35, "more GPU memory")
			r.GPUs[i].MemoryTotal += more
			r.GPUs[i].MemoryFree += more
		}
		more, err := New(r)
		// A GPU that becomes usable replaces the host, and may hold fewer nodes than the host did.
		if less.Device == DeviceCPU && len(r.GPUs) > 0 && (err != nil || more.Device == DeviceCUDA) {
			return
		}
		if err != nil {
			t.Fatalf("memory took %d nodes away: %v", less.Nodes, err)
		}
		if more.Nodes < less.Nodes {
			t.Fatalf("%d nodes with less memory, %d with more", less.Nodes, more.Nodes)
		}
	})
}

// More sequences at a time never need less memory. Offload and checkpointing never need more.
func TestEstimateGrowsWithWork(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := anyRequest(t)
		device := rapid.SampledFrom([]string{DeviceCPU, DeviceCUDA}).Draw(t, "on")
		at := configs.AtOnce{Generate: rapid.IntRange(1, 100).Draw(t, "completions"), Update: rapid.IntRange(1, 100).Draw(t, "rows")}
		small := Sum(Estimate(r.Model, device, r.Settings, at))
		large := Sum(Estimate(r.Model, device, r.Settings, configs.AtOnce{Generate: at.Generate + 1, Update: at.Update + 1}))
		if large.Generate < small.Generate || large.Update < small.Update || large.Resident != small.Resident {
			t.Fatalf("%+v: %+v and then %+v", at, small, large)
		}
		for _, c := range Estimate(r.Model, device, r.Settings, at) {
			if c.Bytes < 0 {
				t.Fatalf("component %+v", c)
			}
		}
		offloaded := r.Settings
		offloaded.OptimizerOffload, offloaded.ParamOffload = true, true
		if f := Sum(Estimate(r.Model, device, offloaded, at)); f.Resident > small.Resident {
			t.Fatalf("offload made %d bytes of %d", f.Resident, small.Resident)
		}
	})
}

// If auto tries MPS, the plan without MPS equals auto's plan on a host without MPS. A run whose proof fails needs no
// other plan.
func TestAutoFallsBackToItsPlanWithoutMPS(t *testing.T) {
	tried := false
	rapid.Check(t, func(t *rapid.T) {
		r := anyRequest(t)
		r.Share, r.MPS = ShareAuto, true
		p, err := New(r)
		r.MPS = false
		without, errWithout := New(r)
		if (err == nil) != (errWithout == nil) || without.Share == ShareMPS || without.ShareWhy != "" {
			t.Fatalf("%v, %v, %+v", err, errWithout, without)
		}
		if p.Share == ShareMPS {
			tried = true
			p = p.Ungoverned("")
			p.ShareWhy = ""
		}
		if !reflect.DeepEqual(p, without) {
			t.Fatalf("with MPS to try:\n%+v\nwithout:\n%+v", p, without)
		}
	})
	if !tried {
		t.Error("no plan was drawn that tries MPS")
	}
}
