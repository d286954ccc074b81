package pretrain

import (
	"context"
	"fmt"
	"slices"

	"github.com/sapo-swarm/swarm/node/policy"
	"github.com/sapo-swarm/swarm/node/sapo"
	"github.com/sapo-swarm/swarm/node/task"
)

// Sizes of an evaluation.
const (
	samples    = 4  // completions per question for its reward
	callOfEval = 32 // questions per engine call
)

// Evaluation measures a model on held-out questions. Each question is answered twice: sampled as in SAPO, and
// greedily after the opening tag.
type Evaluation struct {
	Reward     float64 `json:"reward"`      // sampled at temperature 1, mean over tasks: where SAPO starts
	FormatRate float64 `json:"format_rate"` // share of those completions with tags
	Knows      float64 `json:"knows"`       // greedy reward after the opening tag, mean over tasks: knowledge without the format
	Tasks      []Score `json:"tasks"`
}

// Score is the result for one task.
type Score struct {
	Task   string  `json:"task"`
	Items  int     `json:"items"` // distinct questions
	Reward float64 `json:"reward"`
	Knows  float64 `json:"knows"`
}

// heldOut draws up to n distinct held-out questions with prompts of at most limit tokens, spread as evenly as
// possible over the tasks.
func heldOut(opts Options, n, limit int) ([]task.Item, error) {
	seed := func(name string, index int) uint64 { return sapo.Seed(opts.Seed, name, 0, sapo.PurposeHeldOut, index) }
	items := opts.Tasks.HeldOutItems(n, seed, func(item task.Item) bool { return len(prompt(opts, item)) <= limit })
	if len(items) == 0 && n > 0 {
		return nil, fmt.Errorf("no held-out question fits the model's context")
	}
	return items, nil
}

func evaluate(ctx context.Context, engine *policy.Engine, opts Options, items []task.Item) (Evaluation, error) {
	var result Evaluation
	var formatted int
	for call := range slices.Chunk(items, callOfEval) {
		sampled, greedy, err := answers(ctx, engine, opts, call)
		if err != nil {
			return Evaluation{}, err
		}
		for i, item := range call {
			s := result.score(item.Task())
			s.Items++
			s.Knows += opts.Tasks.Score(item, "<answer>"+greedy[i])
			for _, completion := range sampled[i*samples : (i+1)*samples] {
				s.Reward += opts.Tasks.Score(item, completion) / samples
				if task.ExtractAnswer(completion) != nil {
					formatted++
				}
			}
		}
	}
	for i := range result.Tasks {
		s := &result.Tasks[i]
		s.Reward /= float64(s.Items)
		s.Knows /= float64(s.Items)
		result.Reward += s.Reward / float64(len(result.Tasks))
		result.Knows += s.Knows / float64(len(result.Tasks))
	}
	result.FormatRate = float64(formatted) / float64(max(1, len(items)*samples))
	return result, nil
}

// score returns the score of a task, and adds it if it is missing.
func (e *Evaluation) score(name string) *Score {
	i := slices.IndexFunc(e.Tasks, func(s Score) bool { return s.Task == name })
	if i < 0 {
		i = len(e.Tasks)
		e.Tasks = append(e.Tasks, Score{Task: name})
	}
	return &e.Tasks[i]
}

// answers returns the sampled completions of each question, and the greedy ones after an opening tag.
func answers(ctx context.Context, engine *policy.Engine, opts Options, items []task.Item) (sampled, greedy []string, err error) {
	opening := opts.Tokens.Encode("<answer>")
	var plain, opened [][]int
	for _, item := range items {
		p := prompt(opts, item)
		plain, opened = append(plain, p), append(opened, slices.Concat(p, opening))
	}
	if sampled, err = ask(ctx, engine, opts, plain, samples, 1); err != nil {
		return nil, nil, err
	}
	greedy, err = ask(ctx, engine, opts, opened, 1, 0)
	return sampled, greedy, err
}

func ask(ctx context.Context, engine *policy.Engine, opts Options, prompts [][]int, each int, temperature float64) ([]string, error) {
	out, err := engine.Generate(ctx, policy.GenerateParams{
		Prompts: prompts, NumGenerations: each, MaxNewTokens: opts.MaxNewTokens, Temperature: temperature, TopP: 1,
		EOSTokenID: opts.Tokens.EOS(), Seed: opts.Seed,
	})
	if err != nil {
		return nil, fmt.Errorf("evaluate: %w", err)
	}
	texts := make([]string, len(out.Completions))
	for i, ids := range out.Completions {
		texts[i] = opts.Tokens.Decode(ids)
	}
	return texts, nil
}
