package retry

import (
	"errors"
	"fmt"
	"strings"

	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/launcher/job/shortage"
)

// Next returns the setting to try after the last outcome of history (oldest first), and the reason as text for the
// user. Each step changes one thing. In this order, Next halves the batch as often as possible, enables gradient
// checkpointing, enables offload, moves to another GPU, and moves to the CPU. If nothing is left, the error wraps
// ErrNoMore, with the reasons.
//
// Offload, another GPU and the CPU do not help against a shortage of host memory. Offload and the CPU need more of
// it, and another GPU adds none. If offload has caused such a shortage, Next treats it as the GPU shortage before.
func (p Policy) Next(history []Outcome, others []GPU) (Setting, string, error) {
	if len(history) == 0 {
		return Setting{}, "", errors.New("next attempt: no attempt has ended yet")
	}
	if used := len(history) - 1; used >= p.MaxRetries {
		return Setting{}, "", fmt.Errorf("%w: %d of %d retries are used up. Try: --max-retries %d", ErrNoMore, used, p.MaxRetries, 2*p.MaxRetries+1)
	}
	last := history[len(history)-1]
	var reasons []string
	for _, step := range []func([]Outcome, Outcome, []GPU) (Setting, string, bool){p.batch, p.checkpointing, p.offload, p.otherGPU, p.cpu} {
		to, why, ok := step(history, last, others)
		if ok {
			return to, why, nil
		}
		if why != "" {
			reasons = append(reasons, why)
		}
	}
	return Setting{}, "", fmt.Errorf("%w: %s. Try: %s", ErrNoMore, strings.Join(reasons, "; "), p.remedy(last))
}

func (p Policy) batch(_ []Outcome, last Outcome, _ []GPU) (Setting, string, bool) {
	s := last.Setting
	least := max(1, p.MinBatchSize)
	switch {
	case !p.CanBatch || s.BatchSize <= 0:
		return s, "the command does not use {batch_size}", false
	case s.BatchSize <= least:
		return s, fmt.Sprintf("the batch size is at its minimum, %d", least), false
	}
	to, why := p.withBatch(s, s.Effective(), max(s.BatchSize/2, least))
	if r := last.Shortage; r.Total > 0 && r.Asked/2 > r.Total {
		why += fmt.Sprintf("; one request was for %s of a GPU with %s, so a smaller batch may not be enough", units.Bytes(r.Asked), units.Bytes(r.Total))
	}
	return to, why, true
}

func (p Policy) checkpointing(_ []Outcome, last Outcome, _ []GPU) (Setting, string, bool) {
	s := last.Setting
	switch {
	case !p.CanCheckpoint:
		return s, "the command does not use {gradient_checkpointing}", false
	case s.GradientCheckpointing:
		return s, "gradient checkpointing is already on", false
	}
	s.GradientCheckpointing = true
	return s, "gradient checkpointing: activations are recomputed instead of stored", true
}

func (p Policy) offload(_ []Outcome, last Outcome, _ []GPU) (Setting, string, bool) {
	s := last.Setting
	switch {
	case !p.CanOffload:
		return s, "the command does not use {offload}", false
	case s.Offload:
		return s, "offload is already on", false
	case s.OnCPU:
		return s, "offload does not help on the CPU", false
	case last.Shortage.OnHost:
		return s, "offload would use more host memory, which ran out", false
	}
	s.Offload = true
	return s, "offload: parameters and optimizer are kept in host memory", true
}

// mended returns the outcome that a move to another GPU should fix.
func mended(history []Outcome, last Outcome) Outcome {
	if !last.Shortage.OnHost || !last.Setting.Offload {
		return last
	}
	for i := len(history) - 1; i >= 0; i-- {
		if o := history[i]; !o.Setting.Offload && !o.Shortage.OnHost {
			return o
		}
	}
	return last
}

func (p Policy) otherGPU(history []Outcome, last Outcome, others []GPU) (Setting, string, bool) {
	from := mended(history, last)
	s := from.Setting
	switch {
	case s.OnCPU:
		return s, "", false // cpu gives the reason
	case !p.OtherGPU:
		return s, "another GPU is not allowed", false
	case from.Shortage.OnHost:
		return s, "another GPU does not help, because host memory ran out", false
	}
	had, known := hadFree(from)
	enough := had + had/4 // less than a quarter more is unlikely to help
	neighbour := neighbours(from.Shortage)
	if neighbour > 0 {
		enough = had
	}
	var best GPU
	for _, g := range others {
		if g.Free > best.Free && !tried(history, g.UUID) && (!known || g.Free > enough) {
			best = g
		}
	}
	if best.UUID == "" {
		return s, "no other GPU has clearly more free memory", false
	}
	s.GPU = best.UUID
	why := fmt.Sprintf("%s, which has %s free", best.name(), units.Bytes(best.Free))
	if known {
		why += fmt.Sprintf("; the previous one had %s", units.Bytes(had))
	}
	if neighbour > 0 {
		why += fmt.Sprintf(", and other processes held %s there", units.Bytes(neighbour))
	}
	return s, why, true
}

func (p Policy) cpu(_ []Outcome, last Outcome, _ []GPU) (Setting, string, bool) {
	s := last.Setting
	switch {
	case s.OnCPU:
		return s, "the command already runs on the CPU", false
	case !p.CPU:
		return s, "the CPU is not allowed", false
	case last.Shortage.OnHost:
		return s, "the CPU would use more host memory, which ran out", false
	}
	s.OnCPU, s.GPU, s.Offload = true, "", false
	return s, "the CPU, which is slow", true
}

// remedy returns a remedy if nothing is left to try.
func (p Policy) remedy(last Outcome) string {
	switch {
	case !p.CanBatch:
		return "put {batch_size} into the command, --env or --set"
	case p.MinBatchSize > 1:
		return "--min-batch-size 1"
	case !p.CanCheckpoint && !last.Shortage.OnHost:
		return "put {gradient_checkpointing} into the command"
	case !p.CPU && !last.Shortage.OnHost:
		return "--cpu fallback"
	}
	return "a smaller model, or shorter sequences"
}

// hadFree returns the bytes of its GPU that were free for the attempt, if known.
func hadFree(o Outcome) (int64, bool) {
	if o.Free > 0 {
		return o.Free, true
	}
	r := o.Shortage
	if used := max(r.InUse, r.Allocated+r.Reserved); used > 0 {
		return r.Free + used, true
	}
	return 0, false
}

// neighbours returns the bytes that other processes held, if the attempt's request would have fitted without them.
// Else it returns 0.
func neighbours(r shortage.Report) (sum int64) {
	for _, h := range r.Holders {
		sum += h.Bytes
	}
	if sum < r.Asked {
		return 0
	}
	return sum
}

func tried(history []Outcome, gpu string) bool {
	for _, o := range history {
		if o.Setting.GPU == gpu {
			return true
		}
	}
	return false
}
