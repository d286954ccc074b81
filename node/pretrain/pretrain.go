package pretrain

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/node/policy"
	"github.com/sapo-swarm/swarm/node/sapo"
	"github.com/sapo-swarm/swarm/node/task"
	"github.com/sapo-swarm/swarm/node/tokenizer"
)

// microBatch is small because the engine sorts a batch by length: less of a forward pass is padding.
const microBatch = 16

// Options say what to train and for how long.
type Options struct {
	Shape        configs.Shape
	Tokens       tokenizer.Tokenizer
	Tasks        *task.Set
	SystemPrompt string // its text
	Steps        int
	Batch        int     // sequences a step
	LearningRate float64 // peak; 5 % of the steps warm up to it, then a cosine falls to a tenth
	TagShare     float64 // share of answers in <answer> tags, 0-1
	Seed         int64
	Threads      int
	EvalItems    int // held-out questions of the closing evaluation
	MaxNewTokens int
	Out          string // folder to write; it must not hold a model yet
}

// Progress is one report on the way.
type Progress struct {
	Step, Steps int
	Loss        float64 // nats a completion token
	Tokens      int64   // so far
	Elapsed     time.Duration
}

// Result tells what came out.
type Result struct {
	Parameters int64   `json:"parameters"`
	Loss       float64 `json:"loss"`        // nats a completion token, mean of the last 100 steps
	Reward     float64 `json:"reward"`      // sampled at temperature 1 on held-out questions: what SAPO starts from
	FormatRate float64 `json:"format_rate"` // share of those completions in tags
	Knows      float64 `json:"knows"`       // reward when the opening tag is given, greedy: what the model knows
	Tasks      []Score `json:"tasks"`
	Bytes      int64   `json:"bytes"`
	SHA256     string  `json:"sha256"`
	Seconds    float64 `json:"seconds"`
}

// Score is a task's part in the closing evaluation.
type Score struct {
	Task   string  `json:"task"`
	Items  int     `json:"items"`
	Reward float64 `json:"reward"`
	Knows  float64 `json:"knows"`
}

// ConfigJSON is the model's config.json in Hugging Face's layout of GPT-2.
func ConfigJSON(s configs.Shape, eos int) ([]byte, error) {
	return json.MarshalIndent(map[string]any{
		"model_type": "gpt2", "architectures": []string{"GPT2LMHeadModel"},
		"n_layer": s.Layers, "n_head": s.Heads, "n_embd": s.Width, "n_positions": s.Context, "n_ctx": s.Context,
		"vocab_size": s.Vocabulary, "layer_norm_epsilon": 1e-5, "activation_function": "gelu_new",
		"tie_word_embeddings": true, "bos_token_id": eos, "eos_token_id": eos,
	}, "", "  ")
}

// Run trains and writes the model as a Hugging Face directory in float16. report is called about every second.
func Run(ctx context.Context, engine *policy.Engine, opts Options, report func(Progress)) (Result, error) {
	if _, err := os.Stat(filepath.Join(opts.Out, "model.safetensors")); err == nil {
		return Result{}, fmt.Errorf("%s holds a model already", opts.Out)
	}
	loaded, err := initialise(ctx, engine, opts)
	if err != nil {
		return Result{}, err
	}
	began := time.Now()
	result := Result{Parameters: loaded.Parameters}
	var tokens int64
	var last time.Time
	var recent []float64
	for step := range opts.Steps {
		params, err := batch(opts, step, loaded.ContextLength)
		if err != nil {
			return Result{}, err
		}
		update, err := engine.Update(ctx, params)
		if err != nil {
			return Result{}, fmt.Errorf("step %d: %w", step, err)
		}
		loss := -update.MeanLogprob
		if math.IsNaN(loss) || math.IsInf(loss, 0) {
			return Result{}, fmt.Errorf("step %d: the loss is %v; a smaller learning rate may help", step, loss)
		}
		recent = append(recent[max(0, len(recent)-99):], loss)
		tokens += update.Tokens
		if now := time.Now(); report != nil && (now.Sub(last) > time.Second || step == opts.Steps-1) {
			last = now
			report(Progress{Step: step + 1, Steps: opts.Steps, Loss: sapo.Mean(recent), Tokens: tokens, Elapsed: now.Sub(began)})
		}
	}
	result.Loss = sapo.Mean(recent)
	// Before the evaluation, so that whatever happens to that does not cost the training.
	saved, err := engine.Save(ctx, policy.SaveParams{Path: opts.Out, Format: "huggingface", DType: "float16"})
	if err != nil {
		return Result{}, fmt.Errorf("write %s: %w", opts.Out, err)
	}
	if err := evaluate(ctx, engine, opts, loaded.ContextLength, &result); err != nil {
		return Result{}, fmt.Errorf("%s is written, but: %w", opts.Out, err)
	}
	result.Bytes, result.SHA256, result.Seconds = saved.Bytes, saved.SHA256, time.Since(began).Seconds()
	return result, nil
}

func initialise(ctx context.Context, engine *policy.Engine, opts Options) (policy.LoadResult, error) {
	dir, err := os.MkdirTemp("", "swarm-pretrain-")
	if err != nil {
		return policy.LoadResult{}, err
	}
	defer os.RemoveAll(dir)
	config, err := ConfigJSON(opts.Shape, opts.Tokens.EOS())
	if err != nil {
		return policy.LoadResult{}, err
	}
	if err := os.WriteFile(filepath.Join(dir, "config.json"), config, 0o644); err != nil {
		return policy.LoadResult{}, err
	}
	return engine.Load(ctx, policy.LoadParams{
		ModelDir: dir, RandomInit: true, Seed: opts.Seed, Device: "cpu", Precision: "fp32", Threads: opts.Threads,
		AdamBeta1: 0.9, AdamBeta2: 0.98, AdamEpsilon: 1e-8, WeightDecay: 0.01,
	})
}

// batch draws one step's sequences, all of them fresh, none from the held-out set.
func batch(opts Options, step, contextLength int) (policy.UpdateParams, error) {
	rng := rand.New(rand.NewPCG(sapo.Seed(opts.Seed, "", step, sapo.PurposePretrain, 0), 1))
	params := policy.UpdateParams{
		LearningRate: rate(opts, step), Temperature: 1, Epsilon: 0.2, EpsilonHigh: 0.2, NumIterations: 1,
		LossType: "bnpo", MaxGradNorm: 1, MicroBatch: microBatch,
	}
	for tries := 0; len(params.Sequences) < opts.Batch; tries++ {
		if tries > 100*opts.Batch {
			return params, errors.New("the task set's questions do not fit the model's context")
		}
		item, err := opts.Tasks.Draw(rng.Uint64())
		if err != nil {
			return params, fmt.Errorf("draw a question: %w", err)
		}
		answer, ok := key(item)
		if !ok {
			continue
		}
		prompt := opts.Tokens.Encode(task.Prompt(opts.SystemPrompt, item.Question))
		completion := append(opts.Tokens.Encode(phrase(rng, answer, opts.TagShare)), opts.Tokens.EOS())
		if len(prompt)+len(completion) > contextLength {
			continue
		}
		params.Sequences = append(params.Sequences, policy.Sequence{Prompt: len(params.Prompts), Completion: completion, Advantage: 1})
		params.Prompts = append(params.Prompts, prompt)
	}
	return params, nil
}

// rate is the learning rate of a step: linear warm-up over 5 %, then a cosine to a tenth.
func rate(opts Options, step int) float64 {
	warm := max(1, opts.Steps/20)
	if step < warm {
		return opts.LearningRate * float64(step+1) / float64(warm)
	}
	progress := float64(step-warm) / float64(max(1, opts.Steps-warm))
	return opts.LearningRate * (0.1 + 0.9*0.5*(1+math.Cos(math.Pi*progress)))
}
