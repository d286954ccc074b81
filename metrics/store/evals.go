package store

import (
	"context"

	"github.com/sapo-swarm/swarm/metrics/event"
)

// NodeEval is a held-out evaluation of a node's weights.
type NodeEval struct {
	Node string
	Time float64 // Unix seconds
	event.Eval
}

// Evals returns every held-out evaluation of a run, by round and node.
func (r *Reader) Evals(ctx context.Context, run string) ([]NodeEval, error) {
	panic("helper S")
}

// Evaluated returns for every node of a run the rounds whose evaluation the database has.
func (r *Reader) Evaluated(ctx context.Context, run string) (map[string][]int, error) {
	return map[string][]int{}, nil // helper S
}
