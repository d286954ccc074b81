package pretrain

import (
	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/node/task"
	"github.com/sapo-swarm/swarm/node/tokenizer"
)

// Request names a model to train and its settings.
type Request struct {
	Model                 configs.Model
	Set                   string // task set; empty: the model's
	Recipe                configs.Recipe
	Seed                  int64
	Threads               int
	CurveItems, EvalItems int
	Out                   string // absolute, because the engine, which writes the model, runs in another folder
}

// Options resolves the names of the request.
func (r Request) Options() (Options, error) {
	model := r.Model
	set, prompt := configs.Default().Tasks.Set, "none"
	if tasks, ok := model.Defaults["tasks"].(map[string]any); ok {
		if name, ok := tasks["set"].(string); ok {
			set = name
		}
		if name, ok := tasks["system_prompt"].(string); ok {
			prompt = name
		}
	}
	if r.Set != "" {
		set = r.Set
	}
	mixture, err := configs.TaskSet(set)
	if err != nil {
		return Options{}, err
	}
	tasks, err := task.Open(configs.Tasks{Mixture: r.Recipe.Weigh(mixture)})
	if err != nil {
		return Options{}, err
	}
	tokens, err := tokenizer.New(model.Tokenizer)
	if err != nil {
		return Options{}, err
	}
	system, _ := task.SystemPrompt(prompt)
	return Options{
		Shape: model.Shape, Tokens: tokens, Tasks: tasks, SystemPrompt: system, Recipe: r.Recipe, Seed: r.Seed,
		Threads: r.Threads, CurveItems: r.CurveItems, EvalItems: r.EvalItems, MaxNewTokens: 48, Out: r.Out,
	}, nil
}
