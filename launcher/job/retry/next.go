package retry

import (
	"errors"
	"fmt"
	"strings"

	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/launcher/job/shortage"
)

// Next is what to try after the last outcome of history, the oldest first, and why, in words for the user. Each step
// changes one thing: half the batch, as often as it goes; gradient checkpointing and offload, with the smallest batch;
// another of the GPUs; the CPU. The error wraps ErrNoMore, with the reasons, when there is nothing left.
//
// A shortage of the host's memory is not mended by offload, another GPU or the CPU: all three take more of it. One that
// offload has brought about is taken for the GPU's own before it.
func (p Policy) Next(history []Outcome, others []GPU) (Setting, string, error) {
	if len(history) == 0 {
		return Setting{}, "", errors.New("next attempt: none has ended yet")
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
		return s, "the command has no place for {batch_size}", false
	case s.BatchSize <= least:
		return s, fmt.Sprintf("a batch size below %d is not wanted", least), false
	}
	to, why := p.withBatch(s, s.Effective(), max(s.BatchSize/2, least))
	if r := last.Shortage; r.Total > 0 && r.Asked/2 > r.Total {
		why += fmt.Sprintf("; it asked for %s at once of a memory of %s, so a smaller batch may not be enough", units.Bytes(r.Asked), units.Bytes(r.Total))
	}
	return to, why, true
}

func (p Policy) checkpointing(_ []Outcome, last Outcome, _ []GPU) (Setting, string, bool) {
	s := last.Setting
	switch {
	case !p.CanCheckpoint:
		return s, "the command has no place for {gradient_checkpointing}", false
	case s.GradientCheckpointing:
		return s, "gradient checkpointing is on", false
	}
	s.GradientCheckpointing = true
	return s, "gradient checkpointing: activations are computed twice instead of kept", true
}

func (p Policy) offload(_ []Outcome, last Outcome, _ []GPU) (Setting, string, bool) {
	s := last.Setting
	switch {
	case !p.CanOffload:
		return s, "the command has no place for {offload}", false
	case s.Offload:
		return s, "offload is on", false
	case s.OnCPU:
		return s, "offload is nothing for the CPU", false
	case last.Shortage.OnHost:
		return s, "offload would take more of the host's memory, which ran out", false
	}
	s.Offload = true
	return s, "offload: parameters and optimizer wait in the host's memory", true
}

// mended is the outcome that a move to another GPU is to mend.
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
		return s, "", false // said once, by cpu
	case !p.OtherGPU:
		return s, "another GPU is not allowed", false
	case from.Shortage.OnHost:
		return s, "another GPU has no more of the host's memory, which ran out", false
	}
	had, known := hadFree(from)
	enough := had + had/4 // less than a quarter more is no reason to hope
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
		why += fmt.Sprintf("; the one before had %s", units.Bytes(had))
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
		return s, "there is nothing beyond the CPU", false
	case !p.CPU:
		return s, "the CPU is not allowed", false
	case last.Shortage.OnHost:
		return s, "the CPU would take more of the host's memory, which ran out", false
	}
	s.OnCPU, s.GPU, s.Offload = true, "", false
	return s, "the CPU, which is slow", true
}

// remedy is for when nothing is left to try.
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

// hadFree is how much of its GPU was free for the attempt, as far as that is known.
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

// neighbours is what other processes held, where the attempt could have had what it asked for without them.
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
