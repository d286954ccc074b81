package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/node/best"
	"github.com/sapo-swarm/swarm/node/policy"
)

// openHeldOut draws the node's held-out set. It warns once a run if the tasks have fewer questions than
// eval_questions.
func (l *attempt) openHeldOut(n *Node) error {
	cfg := n.Config
	if cfg.EvalQuestions == 0 {
		return nil
	}
	var err error
	if n.HeldOut, err = OpenHeldOut(cfg, n.Tasks, n.Tokens, n.Context); err != nil {
		return err
	}
	if has := n.HeldOut.Len(); has < cfg.EvalQuestions {
		message := fmt.Sprintf("the held-out set has %d questions instead of the %d of eval_questions: its tasks have no more questions that fit", has, cfg.EvalQuestions)
		if has == 0 {
			message = "nothing is evaluated: the tasks have no held-out question that fits"
		}
		l.warnOnce(message)
	}
	return nil
}

// openSelection draws the validation questions, which choose the node's best weights, and opens the weights that
// previous processes have kept.
func (l *attempt) openSelection(n *Node) error {
	questions, err := OpenSelection(n.Config, n.Tasks, n.Tokens, n.Context, n.HeldOut)
	if err != nil || questions == nil || n.Mode.GenerateOnly {
		return err
	}
	if has, asked := questions.Len(), n.Config.ValidationQuestions; has == 0 {
		l.warnOnce("no best weights are kept: the tasks have no held-out question left for validation. Try: fewer eval_questions")
		return nil
	} else if has < asked {
		l.warnOnce(fmt.Sprintf("the validation set has %d questions, not the %d of validation_questions: its tasks have no more that fit", has, asked))
	}
	n.Selection = questions
	own := l.saves.owner
	l.best, err = best.Open(l.model.start.Dir, best.Owner{Run: own.Run, Node: own.Node, Model: own.Model}, best.Questions{
		Set: questions.Set, Count: questions.Len(), Generations: questions.options.NumGenerations,
	}, l.logger, n.warn)
	if errors.Is(err, best.ErrNewer) {
		err = &Failure{event.CauseConfig, fmt.Errorf(
			"%w. Try: continue the run with the program version that wrote it", err)}
	}
	return err
}

// warnOnce writes a warning to the log. Only the first process of the node to get this far also sends it to the
// launcher.
func (l *attempt) warnOnce(message string) {
	l.logger.Warn(message)
	if l.saved <= l.model.start.From && l.model.start.Recorded <= l.model.start.From {
		l.link.Emit(event.Event{Type: event.TypeWarning, Message: message})
	}
}

// openSplit draws the validation set for the node's splits, and restores the split decisions from a checkpoint.
func (l *attempt) openSplit(n *Node, state json.RawMessage) error {
	var err error
	if n.Validation, err = OpenValidation(n.Config, n.Tasks, n.Tokens, n.Context, n.HeldOut); err == nil {
		err = n.recallSplits(state)
	}
	if err != nil {
		return &Failure{event.CauseConfig, err}
	}
	l.saves.split = n.splitState
	return nil
}

// evaluate answers the held-out questions if an evaluation is due after this number of rounds and has not been made. A
// generate-only node is evaluated only at its first round. evaluate stores the result before it reports it. It also
// answers the validation questions, and keeps the weights if they are the best so far. On a stop it returns ErrStopped
// after at most one engine call, and stores nothing.
func (l *attempt) evaluate(ctx context.Context, n *Node, rounds int) error {
	if !evaluates(n.Config, l.model.start.From, rounds) || n.Mode.GenerateOnly && rounds > l.model.start.From {
		return nil
	}
	if err := l.evaluateHeldOut(ctx, n, rounds); err != nil {
		return err
	}
	return l.keepBest(ctx, n, rounds)
}

func (l *attempt) evaluateHeldOut(ctx context.Context, n *Node, rounds int) error {
	if l.evals.known[rounds] || n.HeldOut.Len() == 0 {
		return nil
	}
	l.model.round = rounds
	eval, err := n.Evaluate(ctx, rounds)
	if err != nil {
		return err
	}
	now := event.Now()
	if err := l.evals.keep(now, eval); err != nil {
		return err
	}
	l.link.Emit(event.Event{Type: event.TypeEval, Time: now, Eval: &eval})
	return nil
}

// keepBest judges the weights by the validation questions, if there are any, and keeps the weights if they are the
// best.
func (l *attempt) keepBest(ctx context.Context, n *Node, rounds int) error {
	if l.best == nil || l.best.Knows(rounds) {
		return nil
	}
	l.model.round = rounds
	eval, err := n.answer(ctx, n.Selection, rounds)
	if err != nil {
		return err
	}
	if err := l.collect(ctx, true); err != nil { // the engine tells of one save at a time
		return err
	}
	return l.best.Take(ctx, l.model, best.NewJudged(eval))
}

// Evaluate answers the held-out questions with the node's weights after this number of rounds. The set must not be
// empty. Each engine call takes its own lease, so that other nodes can compute in between. On a stop it returns
// ErrStopped.
func (n *Node) Evaluate(ctx context.Context, rounds int) (event.Eval, error) {
	return n.answer(ctx, n.HeldOut, rounds)
}

func (n *Node) answer(ctx context.Context, questions *HeldOut, rounds int) (event.Eval, error) {
	return questions.Evaluate(ctx, n.ID, rounds, func(ctx context.Context, p policy.GenerateParams) (policy.GenerateResult, error) {
		n.Host.State(event.StateWaiting, rounds)
		release, err := n.Host.Lease(ctx, phaseGenerate)
		if err != nil {
			return policy.GenerateResult{}, err
		}
		defer release()
		n.Host.State(event.StateEvaluating, rounds)
		result, err := n.Policy.Generate(ctx, p)
		if err != nil {
			return result, fmt.Errorf("evaluate: %w", err)
		}
		return result, nil
	}, nil)
}
