package pretrain

import (
	"context"
	"fmt"
	"slices"

	"github.com/sapo-swarm/swarm/node/policy"
	"github.com/sapo-swarm/swarm/node/sapo"
	"github.com/sapo-swarm/swarm/node/task"
)

// evalBatch is how many held-out questions are asked in one call.
const evalBatch = 64

// redraws bounds the search for a question that fits the context.
const redraws = 100

// evaluate asks held-out questions twice: sampled as SAPO will, and greedily with the opening tag given.
func evaluate(ctx context.Context, engine *policy.Engine, opts Options, contextLength int, result *Result) error {
	opening := opts.Tokens.Encode("<answer>")
	byTask := map[string]*Score{}
	var order []string
	var formatted int
	for lo := 0; lo < opts.EvalItems; lo += evalBatch {
		items := make([]task.Item, min(evalBatch, opts.EvalItems-lo))
		var plain, opened [][]int
		for i := range items {
			item, prompt, err := heldOut(opts, lo+i, contextLength-len(opening)-1)
			if err != nil {
				return err
			}
			items[i] = item
			plain = append(plain, prompt)
			opened = append(opened, slices.Concat(prompt, opening))
		}
		sampled, err := ask(ctx, engine, opts, plain, 1, lo)
		if err != nil {
			return err
		}
		greedy, err := ask(ctx, engine, opts, opened, 0, lo)
		if err != nil {
			return err
		}
		for i, item := range items {
			name := item.Task()
			s := byTask[name]
			if s == nil {
				s = &Score{Task: name}
				byTask[name] = s
				order = append(order, name)
			}
			s.Items++
			s.Reward += opts.Tasks.Score(item, sampled[i])
			s.Knows += opts.Tasks.Score(item, "<answer>"+greedy[i])
			if task.ExtractAnswer(sampled[i]) != nil {
				formatted++
			}
		}
	}
	for _, name := range order {
		s := byTask[name]
		result.Reward += s.Reward / float64(opts.EvalItems)
		result.Knows += s.Knows / float64(opts.EvalItems)
		s.Reward /= float64(s.Items)
		s.Knows /= float64(s.Items)
		result.Tasks = append(result.Tasks, *s)
	}
	if opts.EvalItems > 0 {
		result.FormatRate = float64(formatted) / float64(opts.EvalItems)
	}
	return nil
}

// heldOut draws the index-th held-out question with a prompt of at most limit tokens.
func heldOut(opts Options, index, limit int) (task.Item, []int, error) {
	for try := range redraws {
		item, err := opts.Tasks.DrawHeldOut(sapo.Seed(opts.Seed, "", 0, sapo.PurposeHeldOut, index+try*opts.EvalItems))
		if err != nil {
			return task.Item{}, nil, fmt.Errorf("draw a held-out question: %w", err)
		}
		prompt := opts.Tokens.Encode(task.Prompt(opts.SystemPrompt, item.Question))
		if len(prompt) <= limit {
			return item, prompt, nil
		}
	}
	return task.Item{}, nil, fmt.Errorf("no held-out question of %d fits the model's context", redraws)
}

func ask(ctx context.Context, engine *policy.Engine, opts Options, prompts [][]int, temperature float64, seed int) ([]string, error) {
	out, err := engine.Generate(ctx, policy.GenerateParams{
		Prompts: prompts, NumGenerations: 1, MaxNewTokens: opts.MaxNewTokens, Temperature: temperature, TopP: 1,
		EOSTokenID: opts.Tokens.EOS(), Seed: int64(seed),
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
