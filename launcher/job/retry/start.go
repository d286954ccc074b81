package retry

import "slices"

// Start returns the setting of the first attempt, and the reason for a change as text for the user. It changes the
// requested setting only if a setting within it has run out of memory (short). Then it uses the setting that fitted
// last time on this GPU (remembered; nil: unknown), but never above the requested one, and on the requested device.
// It keeps the effective batch if possible. Without a change the reason is empty.
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
		why = "as fitted last time: " + why
	}
	return start, why
}

func also(why, more string) string {
	if why == "" {
		return more
	}
	return why + "; " + more
}
