package store

import "context"

// RoundValue is one metric of one node's round.
type RoundValue struct {
	Round int
	Node  string
	Time  float64 // end of the round, Unix seconds
	Value float64 // NaN: not finite
}

// RoundBand is one metric of one round over the nodes that did it.
type RoundBand struct {
	Round          int
	Nodes          int     // that did it
	End            float64 // when the last of them ended it, Unix seconds
	Mean, Min, Max float64 // of the finite values; NaN: there is none
}

// RoundMetrics names the metrics of a round that RoundValues and RoundBands know: reward, training_reward, step_time …
func RoundMetrics() []string {
	panic("helper S")
}

// RoundValues returns a metric of a run's rounds from a round on, by round and node. The error is ErrNotFound for an unknown metric.
func (r *Reader) RoundValues(ctx context.Context, run, metric string, from int) ([]RoundValue, error) {
	panic("helper S")
}

// RoundBands returns a metric of a run's rounds from a round on, over nodes, by round.
func (r *Reader) RoundBands(ctx context.Context, run, metric string, from int) ([]RoundBand, error) {
	panic("helper S")
}

// TaskTotal is what a run's nodes together made of one task in some rounds.
type TaskTotal struct {
	Task        string
	Round       int // first of its rounds
	Completions int
	RewardSum   float64
}

// TaskTotals returns the rewards of a run by task, summed over nodes and over so many rounds each, by task and round; with 0 rounds over all.
func (r *Reader) TaskTotals(ctx context.Context, run string, rounds int) ([]TaskTotal, error) {
	panic("helper S")
}

// PeerTotal is what a node had of one peer's rollouts over a run.
type PeerTotal struct {
	Node, Peer                                string
	Available, Rejected, Filtered, Used, Late int // Late: rounds in which nothing came in time
}

// PeerTotals returns who learnt from whom in a run, by node and peer.
func (r *Reader) PeerTotals(ctx context.Context, run string) ([]PeerTotal, error) {
	panic("helper S")
}

// MemorySample is a node's memory in one slot of a run's time: the highest within it.
type MemorySample struct {
	Node                                                 string
	Time                                                 float64 // start of the slot, Unix seconds
	RSSBytes, PeakRSSBytes, DeviceBytes, DevicePeakBytes int64
}

// Memory returns the memory of a run's nodes from a time on in slots of so many seconds (0: as recorded), by time and node.
func (r *Reader) Memory(ctx context.Context, run string, from float64, slot int) ([]MemorySample, error) {
	panic("helper S")
}
