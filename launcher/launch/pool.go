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

// devicePool is a GPU, or the host, with the nodes that share it, their leases and budgets, and its faults.
type devicePool struct {
	name     string // for people
	gpus     []int  // fit.GPU.Index; empty: the host
	resident int64  // planned bytes of a node between its phases
	leases   *lease.Pool
	byBytes  bool // leases are limited by their bytes

	mu       sync.Mutex
	capacity lease.Capacity // of leases
	nodes    []*node        // current nodes
	outage   *outage        // the current or next one
	faults   *supervise.Failures
	sound    time.Time // start of the time without faults
}

func newPool(name string, gpus []int, c lease.Capacity, spec Spec) *devicePool {
	faults := spec.Restarts
	// faults of a GPU do not count as failures of a node, which may have a limit of 0
	faults.MaxRestarts = max(1, faults.MaxRestarts)
	return &devicePool{
		name: name, gpus: gpus, resident: spec.Plan.PerNode.Resident, leases: lease.NewPool(c), byBytes: c.Bytes > 0, capacity: c,
		outage: newOutage(), faults: supervise.NewFailures(faults, rand.Float64), sound: time.Now(),
	}
}

// hostPool returns a pool without limits.
func hostPool(spec Spec) *devicePool { return newPool("the host", nil, lease.Capacity{}, spec) }

// newPools returns a plan's pools, and the pool of each node.
func newPools(spec Spec) (pools, of []*devicePool, err error) {
	planned := spec.Plan.Rooms
	if len(planned) == 0 { // one pool for all nodes
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
			return nil, nil, fmt.Errorf("launch %s: the plan places it on %s but has no such pool", start.Node, place(at))
		}
		pools[index].cover(at)
		of = append(of, pools[index])
	}
	return pools, of, nil
}

// cover adds all GPUs of a node to the pool, so that the pool gets their faults.
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

// enter adds a node. Call it before the node's process starts.
func (r *devicePool) enter(n *node) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n.pool = r
	r.nodes = append(r.nodes, n)
}

// leave removes a node. If its memory is free, the other nodes share it: each node's budget grows for its next
// start, and at once with announce. The shared memory is the node's budget. With leases by bytes it is the node's
// memory between phases, and the leases grow by the same amount.
func (r *devicePool) leave(gone *node, free, announce bool) {
	r.mu.Lock() // held to the end: two leaving nodes must not give memory to each other
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
