package fit

import "github.com/sapo-swarm/swarm/configs"

// limits returns the bytes that a node's phases may use on the fullest card. static assumes that all nodes compute at
// once, lease that one computes at a time.
func limits(all []card, resident int64, capacity func(*card) int64) (static, lease int64) {
	static, lease = 1<<62, 1<<62
	for i := range all {
		if c := &all[i]; c.nodes > 0 {
			static = min(static, capacity(c)/int64(c.nodes)-resident)
			lease = min(lease, capacity(c)-int64(c.nodes)*resident)
		}
	}
	return static, lease
}

// crowd reduces an automatic micro-batch if more nodes can then compute at a time, but not below modest. On a GPU two
// overlapping nodes gain more speed than one node with longer passes.
func (r *Request) crowd(n need, sizes configs.AtOnce, all []card, resident int64) configs.AtOnce {
	if !n.chooses() {
		return sizes
	}
	slots := func(sizes configs.AtOnce) (slots int) {
		transient := n.at(sizes).Transient
		for i := range all {
			if all[i].nodes > 0 {
				slots += all[i].slots(all[i].easy(), resident, transient, r.cores())
			}
		}
		return slots
	}
	least := sizes
	least.Update = min(sizes.Update, modest)
	for most := slots(least); sizes.Update > modest && slots(sizes) < most; {
		sizes.Update = divide(sizes.Update, 2)
	}
	return sizes
}

// keepsMemory decides whether nodes keep cached memory and CUDA graphs between their phases. They do if every node's
// phases fit at once, with memory to spare. Without CUDA graphs the nodes only keep the allocator's cache for their
// own next phase. So nodes that do not take turns may keep it.
func (r *Request) keepsMemory(n need, sizes configs.AtOnce, share string, easy int64) bool {
	s := r.Settings
	if share == ShareLease && (s.OptimizerOffload || s.ParamOffload) {
		return false // at the end of a lease the node moves them to the host
	}
	before := n.at(sizes)
	n.keeps = true
	after := n.at(sizes)
	return after.Transient <= easy || share != ShareLease && after.Update == before.Update
}
