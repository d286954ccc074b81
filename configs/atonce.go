package configs

// AtOnce is the number of sequences that a node processes at a time. Config.AtOnce gives the configured numbers. The
// host's plan caps them (launcher/fit), and a node's governor lowers them when memory is short (node/governed.go).
// Nothing else changes them. They affect memory. Apart from rounding, they never affect draws or updates.
type AtOnce struct {
	Generate int // completions decoded together
	Update   int // sequences in one forward and backward pass
}

// AtOnce returns the configured numbers. Generate is all completions of a round; with an adaptive split, of the
// largest possible round. Update is the micro-batch for an update of the given number of sequences. Without gradient
// accumulation it ignores sequences, because peers choose how many completions their groups have. Passes are counted
// before the engine drops sequences without an advantage.
func (c Config) AtOnce(sequences int) AtOnce {
	rows := c.Budget() * c.NumGenerations
	if c.GradientAccumulationSteps > 1 {
		rows = min(rows, sequences)
	}
	return AtOnce{Generate: c.MostOwn() * c.NumGenerations, Update: MicroBatchOf(rows, c.GradientAccumulationSteps, c.MicroBatch)}
}

// MicroBatchOf returns how many of an update's rows one forward pass processes: rows split into steps passes, and at
// most limit. steps below 2 and limit 0 set no bound.
func MicroBatchOf(rows, steps, limit int) int {
	if steps > 1 {
		rows = (rows + steps - 1) / steps
	}
	if limit > 0 {
		rows = min(rows, limit)
	}
	return rows
}
