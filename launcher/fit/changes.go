package fit

import (
	"fmt"

	"github.com/sapo-swarm/swarm/internal/units"
)

// with plans the same request with a change. Measured figures apply only to the settings of their measurement, so a
// change of settings drops them.
func (r *Request) with(change func(*Request)) (Plan, error) {
	other := *r
	other.alternative = true
	change(&other)
	if other.Settings != r.Settings {
		other.estimateOnly()
	}
	if r.GPUMemory > 0 {
		other.GPUs = nil
	}
	return New(other)
}

// changes describes the options that would improve a plan, most useful first. It lists only options that make a
// difference.
func (r *Request) changes(p Plan) []string {
	found := []string{}
	add := func(format string, args ...any) { found = append(found, fmt.Sprintf(format, args...)) }
	if p.Device == DeviceCUDA {
		if other, err := r.with(func(r *Request) { r.Nodes = NodesMax }); err == nil && r.Nodes != NodesMax && other.Nodes > p.Nodes {
			add("--nodes max: %s, %s", units.Plural(other.Nodes, "node"), sharing(other))
		}
		other, err := r.with(func(r *Request) { r.Nodes, r.Share, r.SwarmSize = NodesMax, ShareLease, 1000 })
		if err == nil && other.Nodes > max(p.Nodes, r.SwarmSize) {
			add("--swarm-size %d --nodes max --share lease: %s, %s", other.Nodes, units.Plural(other.Nodes, "node"), sharing(other))
		}
		other, err = r.with(func(r *Request) { r.Share = ShareLease })
		if err == nil && p.Share != ShareLease && other.Nodes == p.Nodes && larger(other, p) {
			add("--share lease: %s, %s", batches(other, p), sharing(other))
		}
	}
	for _, step := range rungs()[1:] {
		other, err := r.with(step.apply)
		if p.Device == DeviceCPU && step.flag != "--gradient-checkpointing" || err != nil || other.Device != p.Device || r.has(step) {
			continue
		}
		more := p.Device == DeviceCUDA && other.Nodes > p.Nodes
		switch {
		case more:
			add("%s: %s instead of %d", step.flag, units.Plural(other.Nodes, "node"), p.Nodes)
		case other.Nodes == p.Nodes && larger(other, p):
			add("%s: %s", step.flag, batches(other, p))
		}
	}
	if r.Measured == nil && p.Device == DeviceCUDA {
		add("swarm profile: measured figures instead of these estimates")
	}
	return found
}

// has reports whether a step leaves the settings as they are.
func (r *Request) has(step rung) bool {
	other := *r
	step.apply(&other)
	return other.Settings == r.Settings
}

// larger reports whether plan a processes more sequences at a time than plan b.
func larger(a, b Plan) bool {
	return whole(a.MicroBatch) > whole(b.MicroBatch) || whole(a.MicroBatch) == whole(b.MicroBatch) && whole(a.GenerateBatch) > whole(b.GenerateBatch)
}

// whole replaces 0, which means all, by the largest number.
func whole(batch int) int {
	if batch == 0 {
		return 1 << 30
	}
	return batch
}

func batches(a, b Plan) string {
	if a.MicroBatch == b.MicroBatch {
		return fmt.Sprintf("%s completions at a time instead of %s", size(a.GenerateBatch), size(b.GenerateBatch))
	}
	return fmt.Sprintf("micro_batch %s instead of %s", size(a.MicroBatch), size(b.MicroBatch))
}

func size(batch int) string {
	if batch == 0 {
		return "of the whole batch"
	}
	return fmt.Sprint(batch)
}

func sharing(p Plan) string {
	if p.Share == ShareLease {
		return fmt.Sprintf("%d %s at a time", p.Slots, units.Verb(p.Slots, "compute"))
	}
	return "all at once"
}
