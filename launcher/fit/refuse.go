package fit

import (
	"fmt"
	"strings"

	"github.com/sapo-swarm/swarm/internal/units"
)

// rung is one step towards a smaller node. Each rung includes the earlier ones.
type rung struct {
	name  string // as the user types it
	flag  string
	apply func(*Request)
}

// rungs returns the part of the ladder (docs/MEMORY.md, "When memory runs out") that settings control.
func rungs() []rung {
	return []rung{
		{"auto_batch_size", "--auto-batch-size", func(r *Request) { r.Settings.AutoBatchSize = true }},
		{"gradient_checkpointing", "--gradient-checkpointing", func(r *Request) { r.Settings.GradientCheckpointing = true }},
		{"optimizer_offload", "--optimizer-offload", func(r *Request) { r.Settings.OptimizerOffload = true }},
		{"param_offload", "--param-offload", func(r *Request) { r.Settings.ParamOffload = true }},
	}
}

// tooSmall returns the error for a card that holds not even one node. It states the memory of a node, and its memory
// on each rung of the ladder.
func (r *Request) tooSmall(n need, largest card, gpus []GPU) error {
	now := n.at(n.least())
	text := fmt.Sprintf("a %s node takes at least %s and %s, %s of it kept in reserve",
		r.name(), units.BytesShort(now.Resident+now.Transient), describe(gpus), units.BytesShort(reserve(largest.MemoryTotal)))
	smaller, found := *r, false
	smaller.estimateOnly() // measurements apply to the current settings only
	var steps, flags, remedy []string
	if r.Nodes != "" && r.Nodes != NodesAuto && r.Nodes != NodesMax && r.Nodes != "1" {
		flags = append(flags, "--nodes auto") // that one node fits does not mean that the requested number fits
	}
	whole := largest.GPU
	whole.MemoryFree = whole.MemoryTotal
	if used := cards([]GPU{whole}, 1, n)[0].capacity; r.GPUMemory == 0 && now.Resident+now.Transient <= used {
		remedy = append(remedy, "--wait-for-gpu 60m")
	}
	for _, step := range rungs() {
		before := smaller.Settings
		step.apply(&smaller)
		if smaller.Settings == before {
			continue
		}
		flags = append(flags, step.flag)
		need := smaller.need(DeviceCUDA)
		f := need.at(need.least())
		steps = append(steps, fmt.Sprintf("with %s %s", step.name, units.BytesShort(f.Resident+f.Transient)))
		if !found && f.Resident+f.Transient <= largest.capacity {
			remedy, found = append(remedy, strings.Join(flags, " ")), true
		}
	}
	if len(steps) > 0 {
		text += "; " + units.List(steps, "and")
	}
	remedy = append(remedy, "a smaller --model")
	if r.GPUMemory == 0 {
		remedy = append(remedy, "--device cpu")
	}
	return fmt.Errorf("%w: %s. Try: %s", ErrDoesNotFit, text, "a larger GPU, "+strings.Join(remedy[:len(remedy)-1], ", ")+orLast(remedy))
}

func orLast(remedy []string) string {
	if len(remedy) == 1 {
		return "or " + remedy[0]
	}
	return ", or " + remedy[len(remedy)-1]
}

// tooMany returns the error if fewer nodes fit than were requested.
func (r *Request) tooMany(n need, asked, holds int, host hostRoom, gpus []GPU) error {
	most := min(holds, host.nodes)
	text := fmt.Sprintf("%s, enough for %d", describe(gpus), most)
	if host.nodes < holds {
		text = fmt.Sprintf("the host holds %d (%s: %s)", most, host.what, host.detail)
	}
	f := n.at(n.least())
	resident, transient := int64(asked)*f.Resident, f.Transient
	if r.Share == ShareStatic || r.Share == ShareMPS {
		transient *= int64(asked)
	}
	remedy := []string{"--nodes auto", fmt.Sprintf("--nodes %d", most)}
	if r.Share == ShareStatic && r.holdsWith(asked, func(r *Request) { r.Share = ShareLease }) {
		remedy = append(remedy, "--share lease")
	}
	if !r.Settings.OptimizerOffload && r.holdsWith(asked, func(r *Request) { r.Settings.OptimizerOffload = true }) {
		remedy = append(remedy, "--optimizer-offload")
	} else if !r.Settings.ParamOffload && r.holdsWith(asked, func(r *Request) { r.Settings.ParamOffload = true }) {
		remedy = append(remedy, "--param-offload")
	}
	return fmt.Errorf("%w: %s of %s have %s resident and take %s more while they compute, but %s. Try: %s",
		ErrDoesNotFit, units.Plural(asked, "node"), r.name(), units.BytesShort(resident), units.BytesShort(transient), text,
		strings.Join(remedy[:len(remedy)-1], ", ")+orLast(remedy))
}

// holdsWith reports whether that many nodes fit with a change.
func (r *Request) holdsWith(nodes int, change func(*Request)) bool {
	p, err := r.with(func(r *Request) {
		r.Nodes = fmt.Sprint(nodes)
		change(r)
	})
	return err == nil && p.Nodes == nodes
}
