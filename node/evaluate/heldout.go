package evaluate

import (
	"cmp"
	"context"
	"errors"

	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/node"
)

// firstNode is the node whose random numbers evaluate a model that belongs to no node, such as a saved one.
const firstNode = "node_0"

// HeldOut answers the held-out questions of the model's configuration. progress receives the number of questions
// done and the total.
func (e *Engine) HeldOut(ctx context.Context, progress func(done, of int)) (event.Eval, error) {
	questions, err := node.OpenHeldOut(e.model.Config, e.model.tasks, e.model.tokens, e.context)
	if err != nil {
		return event.Eval{}, err
	}
	if questions.Len() == 0 {
		err := errors.New("the tasks have no held-out question that fits the model's context")
		return event.Eval{}, fail.Hint(err, "a larger --max-prompt-length, or other tasks")
	}
	return questions.Evaluate(ctx, cmp.Or(e.model.Checkpoint.Node, firstNode), e.rounds, e.Generate, func(done int) { progress(done, questions.Len()) })
}
