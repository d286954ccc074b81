package node

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/node/policy"
	"github.com/sapo-swarm/swarm/node/sapo"
	"github.com/sapo-swarm/swarm/node/task"
	"github.com/sapo-swarm/swarm/node/tokenizer"
)

// callRows is the number of completions of held-out questions in one engine call. A node that is told to stop waits
// for at most one call. It is a constant because the samples depend on the call's seed and size.
const callRows = 64

// HeldOut holds the held-out questions of an experiment and their sampling options. It is the same for every node,
// seed and experiment with equal tasks, prompt limits, system prompt and sampling options. It does not depend on
// the experiment's seed, its rounds, I, J or G. It is immutable.
type HeldOut struct {
	Set string // identifies questions, answers and sampling: compare evaluations only if their sets are equal

	tasks     *task.Set
	tokens    tokenizer.Tokenizer
	items     []task.Item
	prompts   [][]int
	questions map[string]bool
	options   policy.GenerateParams // all parameters except prompts and seed
	ownDraws  bool                  // each node has its own random numbers
}

// OpenHeldOut draws eval_questions held-out questions whose prompts fit a model of that context length. It draws
// fewer, even none, if the tasks have no more.
func OpenHeldOut(c configs.Config, tasks *task.Set, tokens tokenizer.Tokenizer, contextLength int) (*HeldOut, error) {
	h, err := drawHeldOut(c, tasks, tokens, contextLength, sapo.PurposeHeldOut, nil)
	if err == nil && c.EvalDraws != configs.DrawsShared {
		h.ownDraws, h.Set = true, h.Set+event.OwnDraws
	}
	return h, err
}

// Size of a validation set: three questions of each of the paper's nine tasks, with four completions each. One
// measurement samples as much as two rounds.
const (
	validationQuestions   = 27
	validationGenerations = 4
)

// OpenValidation draws the held-out questions by which the bandit split is judged, nil for any other split. No
// question's text is in the evaluation set, which judges the run.
func OpenValidation(c configs.Config, tasks *task.Set, tokens tokenizer.Tokenizer, contextLength int, evaluation *HeldOut) (*HeldOut, error) {
	if c.Split != configs.SplitBandit {
		return nil, nil
	}
	c.EvalQuestions, c.EvalGenerations = validationQuestions, validationGenerations
	h, err := drawHeldOut(c, tasks, tokens, contextLength, sapo.PurposeValidate, evaluation)
	if err == nil && h.Len() == 0 {
		err = &configs.Error{Key: "split", Value: c.Split, Remedy: "the tasks have no held-out question left to judge splits. " +
			"Try: fewer eval_questions, or split " + configs.SplitRewardEMA}
	}
	return h, err
}

// OpenSelection draws the held-out questions that choose a node's best weights, as many as validation_questions; nil if
// that is 0. No question's text is in the evaluation set, which judges the run.
func OpenSelection(c configs.Config, tasks *task.Set, tokens tokenizer.Tokenizer, contextLength int, evaluation *HeldOut) (*HeldOut, error) {
	if c.ValidationQuestions == 0 {
		return nil, nil
	}
	c.EvalQuestions = c.ValidationQuestions
	return drawHeldOut(c, tasks, tokens, contextLength, sapo.PurposeSelect, evaluation)
}

func drawHeldOut(
	c configs.Config, tasks *task.Set, tokens tokenizer.Tokenizer, contextLength int, purpose sapo.Purpose, but *HeldOut,
) (*HeldOut, error) {
	asks := asking{c, tasks, tokens, contextLength}
	h := &HeldOut{tasks: tasks, tokens: tokens, questions: map[string]bool{}, options: policy.GenerateParams{
		NumGenerations: c.EvalGenerations, MaxNewTokens: c.MaxCompletionLength, Temperature: c.Temperature, TopK: c.TopK, TopP: c.TopP,
		EOSTokenID: tokens.EOS(), StopTokenIDs: tokens.Stops(),
		MicroBatch: c.AtOnce(0).Generate, // as in a round: the memory plan covers it
	}}
	seed := func(name string, index int) uint64 { return sapo.Seed(0, name, 0, purpose, index) }
	h.items = tasks.HeldOutItems(c.EvalQuestions, seed, func(item task.Item) bool {
		return asks.fits(asks.prompt(item)) && !but.Holds(item.Question)
	})
	for _, item := range h.items {
		h.prompts = append(h.prompts, asks.prompt(item))
		h.questions[item.Question] = true
	}
	var err error
	h.Set, err = h.name(c)
	return h, err
}

// name is a short hash of everything that two evaluations must share to be comparable.
func (h *HeldOut) name(c configs.Config) (string, error) {
	system, _ := task.SystemPrompt(c.Tasks.SystemPrompt)
	parts := []any{"held-out set v1", h.items, c.EvalGenerations, c.Temperature, c.TopK, c.TopP, c.MaxCompletionLength, system}
	if c.Tasks.Examples > 0 {
		for _, item := range h.items {
			parts = append(parts, h.tasks.Turns(item))
		}
	}
	data, err := json.Marshal(parts)
	if err != nil {
		return "", fmt.Errorf("name the held-out set: %w", err)
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:6]), nil
}

// Len returns the number of questions.
func (h *HeldOut) Len() int { return len(h.items) }

// Holds reports whether the set has a question with this text. A nil set has none.
func (h *HeldOut) Holds(question string) bool { return h != nil && h.questions[question] }

// sampler makes one engine call that samples completions.
type sampler func(context.Context, policy.GenerateParams) (policy.GenerateResult, error)

// Evaluate answers all questions, call by call, with the weights after this number of rounds, and scores the answers.
// It uses no random numbers of training. Equal weights give a node equal evaluations in any round, so that two of its
// evaluations differ by their weights and not by chance. The completions of different nodes are independent, unless
// all nodes share their random numbers. Before every call, progress receives the number of questions done. It may be
// nil.
func (h *HeldOut) Evaluate(ctx context.Context, node string, rounds int, generate sampler, progress func(done int)) (event.Eval, error) {
	if !h.ownDraws {
		node = ""
	}
	out := event.Eval{
		Round: rounds, Set: h.Set, Generations: h.options.NumGenerations, Temperature: h.options.Temperature, Questions: []event.EvalQuestion{},
	}
	var formatted, tokens int
	each := max(1, callRows/h.options.NumGenerations)
	for first, call := 0, 0; first < len(h.items); first, call = first+each, call+1 {
		if progress != nil {
			progress(first)
		}
		params := h.options
		params.Prompts = h.prompts[first:min(first+each, len(h.items))]
		params.Seed = sapo.EngineSeed(0, node, 0, sapo.PurposeEvaluate, call)
		result, err := generate(ctx, params)
		if err != nil {
			return out, err
		}
		if want := len(params.Prompts) * params.NumGenerations; len(result.Completions) != want {
			return out, fmt.Errorf("evaluate: the engine returned %d completions instead of %d", len(result.Completions), want)
		}
		out.Seconds += result.Seconds
		for i := range params.Prompts {
			answered, inTags, length := h.score(h.items[first+i], result.Completions[i*params.NumGenerations:(i+1)*params.NumGenerations])
			out.Questions = append(out.Questions, answered)
			formatted, tokens = formatted+inTags, tokens+length
		}
	}
	completions := float64(max(1, len(h.items)*h.options.NumGenerations))
	out.FormatRate, out.MeanLength = float64(formatted)/completions, float64(tokens)/completions
	return out, nil
}

// score computes the rewards of one question's completions. It also counts the completions with answer tags and
// their tokens in total.
func (h *HeldOut) score(item task.Item, completions [][]int) (q event.EvalQuestion, formatted, tokens int) {
	q.Task = item.Task()
	for _, ids := range completions {
		text := h.tokens.Decode(ids)
		reward := h.tasks.Score(item, text)
		q.RewardSum += reward
		if reward == 1 {
			q.Correct++
		}
		if task.ExtractAnswer(text) != nil {
			formatted++
		}
		tokens += len(ids)
	}
	return q, formatted, tokens
}
