package pretrain

import (
	"context"
	"fmt"

	"github.com/sapo-swarm/swarm/node/policy"
	"github.com/sapo-swarm/swarm/node/sapo"
	"github.com/sapo-swarm/swarm/node/task"
)

// evalBatch is how many held-out questions are asked in one call.
const evalBatch = 64

// evaluate asks held-out questions twice: sampled as SAPO will, and greedily with the opening tag given.
func evaluate(ctx context.Context, engine *policy.Engine, opts Options, result *Result) error {
	byTask := map[string]*Score{}
	var order []string
	var formatted int
	for lo := 0; lo < opts.EvalItems; lo += evalBatch {
		items := make([]task.Item, min(evalBatch, opts.EvalItems-lo))
		var plain, opened [][]int
		for i := range items {
			item, err := opts.Tasks.DrawHeldOut(sapo.Seed(opts.Seed, "", 0, sapo.PurposeHeldOut, lo+i))
			if err != nil {
				return fmt.Errorf("draw a held-out question: %w", err)
			}
			items[i] = item
			prompt := opts.Tokens.Encode(task.Prompt(opts.SystemPrompt, item.Question))
			plain = append(plain, prompt)
			opened = append(opened, append(prompt[:len(prompt):len(prompt)], opts.Tokens.Encode("<answer>")...))
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
