package node

import (
	"context"
	"fmt"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/node/policy"
	"github.com/sapo-swarm/swarm/node/task"
	"github.com/sapo-swarm/swarm/node/tokenizer"
)

// Prompt returns the token ids of an item's question as a node of this configuration gives them to its model: with the
// system prompt and the examples, and in the chat template if the tokenizer has one.
func Prompt(c configs.Config, tasks *task.Set, tokens tokenizer.Tokenizer, item task.Item) []int {
	return asking{config: c, tasks: tasks, tokens: tokens}.prompt(item)
}

// Completion is one answer of a model to a question.
type Completion struct {
	Text     string   `json:"text"`
	Answer   *string  `json:"answer"`   // text between the answer tags; null: no answer tags
	Score    *float64 `json:"score"`    // null: the question belongs to no task
	Tokens   int      `json:"tokens"`   // includes the end token
	Finished bool     `json:"finished"` // it ended with the end token, not at the length limit
}

// Ask samples the completions of the one prompt in params and scores them. score may be nil.
func Ask(
	ctx context.Context, params policy.GenerateParams, tokens tokenizer.Tokenizer, generate sampler, score func(text string) float64,
) ([]Completion, error) {
	result, err := generate(ctx, params)
	if err != nil {
		return nil, err
	}
	if got := len(result.Completions); got != params.NumGenerations || len(result.Terminated) != got {
		return nil, fmt.Errorf("the engine returned %d completions instead of %d", got, params.NumGenerations)
	}
	list := make([]Completion, params.NumGenerations)
	for i, ids := range result.Completions {
		text := tokens.Decode(ids)
		list[i] = Completion{Text: text, Answer: task.ExtractAnswer(text), Tokens: len(ids), Finished: result.Terminated[i]}
		if score != nil {
			reward := score(text)
			list[i].Score = &reward
		}
	}
	return list, nil
}
