package launch

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/sapo-swarm/swarm/launcher/fit"
	"github.com/sapo-swarm/swarm/launcher/lease"
	"github.com/sapo-swarm/swarm/launcher/supervise"
)

// devicePool is a GPU, or the host, with the nodes that share it: their leases, their budgets and its faults.
type devicePool struct {
	name     string // for a person
	gpus     []int  // fit.GPU.Index; none: the host
	resident int64  // bytes of a node between its phases, by the plan
	leases   *lease.Pool
	byBytes  bool // leases are limited by their bytes

	mu       sync.Mutex
	capacity lease.Capacity // of pool
	nodes    []*node        // that are in it
	outage   *outage        // the one that lasts, or the next one
	faults   *supervise.Failures
	sound    time.Time // since when there was no fault
}

func newPool(name string, gpus []int, c lease.Capacity, spec Spec) *devicePool {
	faults := spec.Restarts
	faults.MaxRestarts = max(1, faults.MaxRestarts) // a fault is no failure of a node, which may have none
	return &devicePool{
		name: name, gpus: gpus, resident: spec.Plan.PerNode.Resident, leases: lease.NewPool(c), byBytes: c.Bytes > 0, capacity: c,
		outage: newOutage(), faults: supervise.NewFailures(faults, rand.Float64), sound: time.Now(),
	}
}

// hostPool is a pool without limits.
func hostPool(spec Spec) *devicePool { return newPool("the host", nil, lease.Capacity{}, spec) }

// newPools returns a plan's pools, and each node's.
func newPools(spec Spec) (pools, of []*devicePool, err error) {
	planned := spec.Plan.Rooms
	if len(planned) == 0 { // one for all
		planned = []fit.Room{{Slots: spec.Plan.Slots}}
	}
	for _, p := range planned {
		r := newPool("the host", nil, lease.Capacity{Bytes: p.LeaseBytes, Slots: p.Slots}, spec)
		if p.GPU != nil {
			r.name, r.gpus = "GPU "+strconv.Itoa(*p.GPU), []int{*p.GPU}
		}
		pools = append(pools, r)
	}
	for i, start := range spec.Starts {
		var at fit.Placement
		if i < len(spec.Plan.Placement) {
			at = spec.Plan.Placement[i]
		}
		index := slices.IndexFunc(planned, func(p fit.Room) bool {
			return p.GPU == nil && at.GPU == nil || p.GPU != nil && at.GPU != nil && *p.GPU == *at.GPU
		})
		if len(spec.Plan.Rooms) == 0 {
			index = 0
		}
		if index < 0 {
			return nil, nil, fmt.Errorf("launch %s: the plan places it on %s, and has no such pool", start.Node, place(at))
		}
		pools[index].cover(at)
		of = append(of, pools[index])
	}
	return pools, of, nil
}

// cover makes the faults of all GPUs of a node the pool's.
func (r *devicePool) cover(at fit.Placement) {
	for _, g := range at.Cards() {
		if !slices.Contains(r.gpus, g) {
			r.gpus = append(r.gpus, g)
		}
	}
}

func place(at fit.Placement) string {
	if at.GPU == nil {
		return "the host"
	}
	return "GPU " + strconv.Itoa(*at.GPU)
}

func (r *devicePool) isGPU() bool { return len(r.gpus) > 0 }

// enter is called before a node's first process is started.
func (r *devicePool) enter(n *node) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n.pool = r
	r.nodes = append(r.nodes, n)
}

// leave takes a node out. Where the memory it had is free, the others share it: each node's budget grows by its part,
// for its next start and, if announce is set, at once. That memory is the node's budget or, where leases govern what
// phases take, what it took between them; the leases then share that much more.
func (r *devicePool) leave(gone *node, free, announce bool) {
	r.mu.Lock() // to the end: two that leave must not share out to each other
	defer r.mu.Unlock()
	r.nodes = slices.DeleteFunc(r.nodes, func(n *node) bool { return n == gone })
	if !free || len(r.nodes) == 0 {
		return
	}
	bytes := gone.budget()
	if r.byBytes {
		bytes = r.resident
		if measured := gone.resident.Load(); measured > 0 {
			bytes = measured
		}
		r.capacity.Bytes += bytes
		r.leases.Resize(r.capacity)
	}
	for _, n := range r.nodes {
		n.grow(bytes/int64(len(r.nodes)), announce)
	}
}
