package pretrain

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"time"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/node/policy"
	"github.com/sapo-swarm/swarm/node/sapo"
	"github.com/sapo-swarm/swarm/node/task"
	"github.com/sapo-swarm/swarm/node/tokenizer"
)

// Options configures a training run.
type Options struct {
	Shape        configs.Shape
	Tokens       tokenizer.Tokenizer
	Tasks        *task.Set // tasks to draw questions from, with the recipe's weights
	SystemPrompt string    // text of the system prompt
	Recipe       configs.Recipe
	Seed         int64
	Threads      int
	CurveItems   int // held-out questions of the evaluation after each tenth of the steps; 0: none
	EvalItems    int // held-out questions of the final evaluation
	MaxNewTokens int
	Out          string // folder to write; files of a model in it are replaced
}

// curvePoints is the number of evaluations, including the final one.
const curvePoints = 10

// Progress is a progress report.
type Progress struct {
	Step, Steps int
	Loss        float64 // nats per completion token, mean of the last 100 steps
	Tokens      int64   // tokens so far
	Elapsed     time.Duration
	Evaluation  *Evaluation // after a tenth of the steps; otherwise nil
}

// Point is a point of the curve.
type Point struct {
	Step int     `json:"step"`
	Loss float64 `json:"loss"`
	Evaluation
}

// Result is the result of a training run.
type Result struct {
	Parameters int64          `json:"parameters"`
	Recipe     configs.Recipe `json:"recipe"`
	Loss       float64        `json:"loss"` // nats per completion token, mean of the last 100 steps
	Evaluation
	Curve   []Point `json:"curve"` // smaller evaluations during the training
	Bytes   int64   `json:"bytes"`
	SHA256  string  `json:"sha256"`
	Seconds float64 `json:"seconds"`
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

// Run trains a model and writes it as a Hugging Face directory in float16. It calls report about every second. The
// weights are a function of recipe, tasks, shape and seed on one machine and thread count. Evaluations do not
// change them.
func Run(ctx context.Context, engine *policy.Engine, opts Options, report func(Progress)) (Result, error) {
	loaded, err := initialise(ctx, engine, opts)
	if err != nil {
		return Result{}, err
	}
	t := trainer{engine: engine, opts: opts, context: loaded.ContextLength, began: time.Now(), report: report}
	result := Result{Parameters: loaded.Parameters, Recipe: opts.Recipe}
	if result.Curve, err = t.train(ctx); err != nil {
		return Result{}, err
	}
	result.Loss = sapo.Mean(t.recent)
	// Save before the evaluation, so that a failure of the evaluation does not lose the training.
	saved, err := engine.Save(ctx, policy.SaveParams{Path: opts.Out, Format: "huggingface", DType: "float16"})
	if err != nil {
		return Result{}, fmt.Errorf("write %s: %w", opts.Out, err)
	}
	if result.Evaluation, err = t.evaluate(ctx, opts.EvalItems); err != nil {
		return Result{}, fmt.Errorf("%s is written, but: %w", opts.Out, err)
	}
	result.Bytes, result.SHA256, result.Seconds = saved.Bytes, saved.SHA256, time.Since(t.began).Seconds()
	return result, nil
}

// trainer is the state of a run.
type trainer struct {
	engine  *policy.Engine
	opts    Options
	context int // the model's context length
	began   time.Time
	report  func(Progress)
	told    time.Time
	recent  []float64 // losses of the last 100 steps
	tokens  int64
}

func (t *trainer) train(ctx context.Context) ([]Point, error) {
	var curve []Point
	steps := t.opts.Recipe.Steps
	for step := range steps {
		if err := t.step(ctx, step); err != nil {
			return nil, err
		}
		tenth, before := (step+1)*curvePoints/steps, step*curvePoints/steps
		if tenth > before && step+1 < steps && t.opts.CurveItems > 0 {
			e, err := t.evaluate(ctx, t.opts.CurveItems)
			if err != nil {
				return nil, err
			}
			curve = append(curve, Point{Step: step + 1, Loss: sapo.Mean(t.recent), Evaluation: e})
			t.tell(step+1, &e)
		} else if time.Since(t.told) > time.Second || step+1 == steps {
			t.tell(step+1, nil)
		}
	}
	return curve, nil
}

func (t *trainer) step(ctx context.Context, step int) error {
	params, err := batch(t.opts, step, t.context)
	if err != nil {
		return err
	}
	update, err := t.engine.Update(ctx, params)
	if err != nil {
		return fmt.Errorf("step %d: %w", step, err)
	}
	loss := -update.MeanLogprob
	if !units.Finite(loss) {
		return fmt.Errorf("step %d: the loss is %v; a smaller learning rate may help", step, loss)
	}
	t.recent = append(t.recent[max(0, len(t.recent)-99):], loss)
	t.tokens += update.Tokens
	return nil
}

func (t *trainer) tell(step int, e *Evaluation) {
	t.told = time.Now()
	if t.report != nil {
		t.report(Progress{
			Step: step, Steps: t.opts.Recipe.Steps, Loss: sapo.Mean(t.recent), Tokens: t.tokens, Elapsed: t.told.Sub(t.began), Evaluation: e,
		})
	}
}

func (t *trainer) evaluate(ctx context.Context, n int) (Evaluation, error) {
	items, err := heldOut(t.opts, n, t.context-len(t.opts.Tokens.Encode("<answer>"))-1)
	if err != nil {
		return Evaluation{}, err
	}
	return evaluate(ctx, t.engine, t.opts, items)
}

func initialise(ctx context.Context, engine *policy.Engine, opts Options) (policy.LoadResult, error) {
	dir, err := os.MkdirTemp("", "swarm-pretrain-")
	if err != nil {
		return policy.LoadResult{}, err
	}
	defer os.RemoveAll(dir)
	if err := writeInitial(dir, opts.Shape, opts.Tokens.EOS(), opts.Seed); err != nil {
		return policy.LoadResult{}, err
	}
	return engine.Load(ctx, policy.LoadParams{
		ModelDir: dir, Seed: opts.Seed, Device: "cpu", Precision: "fp32", Threads: opts.Threads,
		AdamBeta1: 0.9, AdamBeta2: 0.98, AdamEpsilon: 1e-8, WeightDecay: 0.1,
	})
}

// batch draws one step's sequences. All of them are fresh, and none is held out.
func batch(opts Options, step, contextLength int) (policy.UpdateParams, error) {
	rng := rand.New(rand.NewPCG(sapo.Seed(opts.Seed, "", step, sapo.PurposePretrain, 0), 1))
	params := policy.UpdateParams{
		LearningRate: rate(opts.Recipe, step), Temperature: 1, Epsilon: 0.2, EpsilonHigh: 0.2, NumIterations: 1,
		LossType: "bnpo", MaxGradNorm: 1,
	}
	for tries := 0; len(params.Sequences) < opts.Recipe.Batch; tries++ {
		if tries > 100*opts.Recipe.Batch {
			return params, errors.New("the task set's questions do not fit the model's context")
		}
		item, err := opts.Tasks.Draw(rng.Uint64())
		if err != nil {
			return params, fmt.Errorf("draw a question: %w", err)
		}
		answer, ok := item.Solution()
		if !ok {
			continue
		}
		question := prompt(opts, item)
		completion := append(opts.Tokens.Encode(phrase(rng, answer, opts.Recipe.TagShareOf(item.Task()))), opts.Tokens.EOS())
		if len(question)+len(completion) > contextLength {
			continue
		}
		params.Sequences = append(params.Sequences, policy.Sequence{Prompt: len(params.Prompts), Completion: completion, Advantage: 1})
		params.Prompts = append(params.Prompts, question)
	}
	return params, nil
}

func prompt(opts Options, item task.Item) []int {
	return opts.Tokens.Encode(task.Prompt(opts.SystemPrompt, item.Question))
}

// Shape of the learning rate: rateWarmUp steps at the start (at most a twentieth of all), and a share of decayShare
// at the end.
const (
	rateWarmUp = 100
	decayShare = 0.5
	rateFloor  = 0.05 // share of the peak at the end
)

// rate is the learning rate of a step: it warms up, stays constant, and falls linearly (the "trapezoid" of Hägele
// et al., arXiv:2405.18392). Until the fall it does not depend on the number of steps, so that you can watch a long
// run before you decide where to end it.
func rate(recipe configs.Recipe, step int) float64 {
	warm := max(1, min(rateWarmUp, recipe.Steps/20))
	decay := max(1, int(decayShare*float64(recipe.Steps)))
	share := min(1, float64(step+1)/float64(warm))
	if left := recipe.Steps - step; left < decay {
		share = min(share, rateFloor+(1-rateFloor)*float64(left)/float64(decay))
	}
	return recipe.LearningRate * share
}
