package retry

import "slices"

// Start is what to begin with, and why, in words for the user: where no more than what they ask for has run out of
// memory (short), what fitted last time on this GPU (nil: nothing is known), but never above what the user asked for,
// and on the device that they asked for. What never ran out is tried as it is asked for. The effective batch is kept
// where that is possible. Without a change there are no words.
func (p Policy) Start(remembered *Setting, short []Setting, asked Setting) (Setting, string) {
	if remembered == nil || !slices.ContainsFunc(short, func(s Setting) bool { return s.Within(asked) }) {
		return asked, ""
	}
	start, why := asked, ""
	if p.CanBatch && remembered.BatchSize > 0 && remembered.BatchSize < asked.BatchSize {
		start, why = p.withBatch(asked, asked.Effective(), remembered.BatchSize)
	}
	if p.CanCheckpoint && remembered.GradientCheckpointing && !asked.GradientCheckpointing {
		start.GradientCheckpointing = true
		why = also(why, "gradient checkpointing")
	}
	if p.CanOffload && remembered.Offload && !asked.Offload && !asked.OnCPU {
		start.Offload = true
		why = also(why, "offload")
	}
	if why != "" {
		why = "as it fitted last time: " + why
	}
	return start, why
}

func also(why, more string) string {
	if why == "" {
		return more
	}
	return why + "; " + more
}
