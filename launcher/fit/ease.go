package fit

import "github.com/sapo-swarm/swarm/configs"

// limits are what every node's phases may take of the fullest card, in bytes: if all compute at once, and if one at a
// time does.
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

// crowd makes a micro-batch that is left open smaller where more nodes can then compute at a time, but not below
// modest: on a GPU two nodes that overlap gain more than one with longer passes.
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

// keepsMemory decides whether nodes hold on to cached memory and CUDA graphs between their phases. They do where every
// node's phases fit at once, with room to spare. Without CUDA graphs what they hold is the allocator's cache, which
// serves their own next phase: nodes that do not take turns need not give it back.
func (r *Request) keepsMemory(n need, sizes configs.AtOnce, share string, easy int64) bool {
	s := r.Settings
	if share == ShareLease && (s.OptimizerOffload || s.ParamOffload) {
		return false // the end of a lease moves them to the host
	}
	before := n.at(sizes)
	n.keeps = true
	after := n.at(sizes)
	return after.Transient <= easy || share != ShareLease && after.Update == before.Update
}
