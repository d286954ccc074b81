package configs

// AtOnce is how many sequences a node works on at a time. The settings ask (Config.AtOnce), the plan of a host caps
// that (launcher/fit), and a node's governor takes fewer where its memory asks for it (node/governed.go). Nobody else
// decides. It changes memory, and apart from rounding never the draws or the updates.
type AtOnce struct {
	Generate int // completions that are decoded together
	Update   int // sequences of one forward and backward pass
}

// AtOnce is what the settings ask for: all completions of a round together, of the largest round where their number is
// decided round by round, and for an update of so many sequences the micro-batch. The whole batch is one as far as its
// size is the node's choice: peers choose how many completions their groups have. Passes are counted before the engine
// leaves out sequences without an advantage.
func (c Config) AtOnce(sequences int) AtOnce {
	rows := c.Budget() * c.NumGenerations
	if c.GradientAccumulationSteps > 1 {
		rows = min(rows, sequences)
	}
	return AtOnce{Generate: c.MostOwn() * c.NumGenerations, Update: MicroBatchOf(rows, c.GradientAccumulationSteps, c.MicroBatch)}
}

// MicroBatchOf is how many of an update's rows a forward pass takes: so many that there are steps passes, and at most
// limit. steps below 2 and limit 0 ask for nothing.
func MicroBatchOf(rows, steps, limit int) int {
	if steps > 1 {
		rows = (rows + steps - 1) / steps
	}
	if limit > 0 {
		rows = min(rows, limit)
	}
	return rows
}
