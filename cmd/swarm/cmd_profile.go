package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/interrupt"
	"github.com/sapo-swarm/swarm/internal/screen"
	"github.com/sapo-swarm/swarm/internal/table"
	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/launcher/fit"
	"github.com/sapo-swarm/swarm/launcher/plan"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/store"
	"github.com/sapo-swarm/swarm/node/model"
	"github.com/sapo-swarm/swarm/node/policy"
	"github.com/sapo-swarm/swarm/node/profile"
)

type profileOptions struct {
	plan   plan.Options
	sizes  string
	output string
}

func newProfileCommand(g *globals) *cobra.Command {
	var o profileOptions
	cmd := &cobra.Command{
		Use:   "profile [CONFIG]",
		Short: "Measure what a node takes, for later plans",
		Long: "profile loads the model once and runs a node's phases at their greatest lengths, with ever more sequences at a time. The line\n" +
			"through the peaks is kept for this model, these settings, this torch and this GPU: swarm plan and swarm up then count\n" +
			"with it in place of the guides' table and the estimate, and say so. The GPU should be otherwise idle.",
		Example: `  swarm profile --model gpt2
  swarm profile 4loc4ext --sizes 1,4,16`,
		Args: func(cmd *cobra.Command, args []string) error { return o.plan.Config.TakeArgs(args) },
		RunE: func(cmd *cobra.Command, args []string) error {
			return runProfile(cmd.Context(), g, &o)
		},
	}
	o.plan.Config.AddFlags(cmd.Flags())
	cmd.Flags().StringVar(&o.sizes, "sizes", "", "sequences at a time to measure, a `list` such as 1,4,16 (default: powers of two)")
	addOutputFlag(cmd.Flags(), &o.output)
	return cmd
}

// profiled is what swarm profile prints.
type profiled struct {
	Model    string          `json:"model"`
	Settings json.RawMessage `json:"settings"`
	Torch    string          `json:"torch"`
	GPU      string          `json:"gpu"`
	Resident int64           `json:"resident_bytes"`
	Generate profile.Line    `json:"generate"`
	Update   profile.Line    `json:"update"`
	Points   []profile.Point `json:"points"`
	Seconds  float64         `json:"seconds"`
}

func runProfile(ctx context.Context, g *globals, o *profileOptions) error {
	if err := checkOutput(o.output); err != nil {
		return err
	}
	sizes, err := parseSizes(o.sizes)
	if err != nil {
		return err
	}
	ctx, interrupts := interrupt.Notify(ctx, g.stderr, "Stopping: nothing is kept.")
	defer interrupts.Close()
	look, err := o.plan.Look(g.planHost())
	if err != nil {
		return err
	}
	p, _, err := look(ctx)
	if err != nil {
		return interrupt.Exit(ctx, err)
	}
	if p.Config.Models != "" {
		return fail.Usage(fmt.Errorf("one model is measured at a time, not %s", p.Config.Models), "--model "+p.Config.Model+", then each of the others")
	}
	if err := checkSizes(o.sizes, sizes, p.Config); err != nil {
		return err
	}
	result, err := measure(ctx, g, p, sizes)
	if err != nil {
		return interrupt.Exit(ctx, err)
	}
	if err := keepProfile(ctx, g, p, result); err != nil {
		return err
	}
	if o.output == "json" {
		return writeJSON(g.stdout, result)
	}
	return screen.Print(g.stdout, func(p *table.Page) { printProfile(p, result) })
}

// parseSizes reads a list such as 1,4,16; empty is nil.
func parseSizes(text string) ([]int, error) {
	if text == "" {
		return nil, nil
	}
	var sizes []int
	for part := range strings.SplitSeq(text, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(part))
		if err != nil || n < 1 || n > 1<<20 {
			return nil, &configs.Error{Key: "sizes", Value: text, Allowed: "whole numbers from 1, such as 1,4,16"}
		}
		sizes = append(sizes, n)
	}
	return sizes, nil
}

// checkSizes refuses sizes that a round can't have, and too few for a line: each phase needs two, where its round has as many.
func checkSizes(text string, sizes []int, c configs.Config) error {
	if sizes == nil {
		return nil
	}
	completions, sequences := c.MostOwn()*c.NumGenerations, c.Budget()*c.NumGenerations
	different := map[int]bool{}
	for _, n := range sizes {
		if n <= completions {
			different[n] = true
		}
	}
	if slices.Max(sizes) <= sequences && len(different) >= min(2, completions) {
		return nil
	}
	return &configs.Error{Key: "sizes", Value: text, Allowed: fmt.Sprintf("numbers from 1 to %d, the sequences of a round, of which two different ones "+
		"at least are no more than its %d completions", sequences, completions)}
}

// measure starts an engine as a node would and profiles it.
func measure(ctx context.Context, g *globals, p plan.Planned, sizes []int) (profiled, error) {
	began := time.Now()
	c, key := p.Config, plan.FootprintKey(p)
	modelDir, err := model.Resolve(p.Model, string(g.home))
	if err != nil {
		return profiled{}, err
	}
	device, env := fit.DeviceCPU, []string(nil)
	if key.GPU != plan.CPUName {
		python, err := g.python.Find(ctx)
		if err != nil {
			return profiled{}, err
		}
		if !python.CUDA {
			return profiled{}, plan.NoCUDA(python, "the profile is for a GPU")
		}
		device, env = "cuda:0", []string{"CUDA_VISIBLE_DEVICES=" + plan.MostFree(p).UUID}
	}
	engine, err := g.python.Start(ctx, g.stderr, p.Host.Cores, env...)
	if err != nil {
		return profiled{}, err
	}
	defer engine.Close()
	var settings plan.FootprintSettings
	if err := json.Unmarshal([]byte(key.Settings), &settings); err != nil {
		return profiled{}, fmt.Errorf("read back the settings: %w", err)
	}
	fmt.Fprintf(g.stderr, "Loading %s on %s.\n", c.Model, key.GPU)
	loaded, err := engine.Load(ctx, policy.LoadParams{
		ModelDir: modelDir, Device: device, Precision: settings.Precision, Threads: p.Host.Cores, GradientCheckpointing: c.GradientCheckpointing,
		OptimizerOffload: c.OptimizerOffload, ParamOffload: c.ParamOffload, CUDAGraphs: settings.CUDAGraphs, Ranks: c.GPUsPerNode,
		AdamBeta1: c.AdamBeta1, AdamBeta2: c.AdamBeta2, AdamEpsilon: c.AdamEpsilon, WeightDecay: c.WeightDecay,
	})
	if err != nil {
		return profiled{}, plan.OutOfMemory(err)
	}
	progress := screen.NewStatusLine(g.stderr, 0)
	defer progress.End()
	measuring := time.Now()
	result, err := profile.Run(ctx, engine, profile.Options{
		PromptTokens: c.MaxPromptLength, CompletionTokens: c.MaxCompletionLength, Prompts: c.MostOwn(), Generations: c.NumGenerations,
		Sequences: c.Budget() * c.NumGenerations, Vocabulary: loaded.VocabSize, Sizes: sizes,
		Rows: fit.RowsAtOnce(device != fit.DeviceCPU, c.MaxPromptLength, c.MaxCompletionLength, c.NumGenerations),
		Update: policy.UpdateParams{
			Temperature: max(c.Temperature, 0.1), Epsilon: c.Epsilon, EpsilonHigh: c.EpsilonHigh, Beta: c.Beta, NumIterations: c.NumIterations,
			LossType: c.LossType, MaxCompletionLength: c.MaxCompletionLength, MaxGradNorm: c.MaxGradNorm,
		},
		Progress: func(s profile.Step) { progress.Say(profileStep(s, time.Since(measuring))) },
	})
	if err != nil {
		return profiled{}, plan.OutOfMemory(err)
	}
	if device == fit.DeviceCPU {
		now, err := engine.Memory(ctx)
		if err != nil {
			return profiled{}, err
		}
		result.Resident = max(1, result.Resident-engine.Hello.Interpreter(now))
	}
	return profiled{
		Model: c.Model, Settings: json.RawMessage(key.Settings), Torch: engine.Hello.Torch, GPU: key.GPU, Resident: result.Resident,
		Generate: result.Generate, Update: result.Update, Points: result.Points, Seconds: time.Since(began).Seconds(),
	}, nil
}

func profileStep(s profile.Step, elapsed time.Duration) string {
	line := fmt.Sprintf("%d of %d: %s, %d at a time", s.Done+1, s.Total, s.Phase, s.Sequences)
	if s.Share > 0.05 {
		left := time.Duration(float64(elapsed) * (1 - s.Share) / s.Share).Round(time.Second)
		line += fmt.Sprintf(", about %s left", left)
	}
	return line
}

func keepProfile(ctx context.Context, g *globals, p plan.Planned, result profiled) error {
	db, err := store.Open(ctx, g.home.Database(), store.Options{Warn: store.LogNews(g.logger)})
	if err != nil {
		return err
	}
	points, err := json.Marshal(result.Points)
	if err != nil {
		return errors.Join(fmt.Errorf("encode the points: %w", err), db.Close())
	}
	key := plan.FootprintKey(p)
	key.Torch = result.Torch
	return errors.Join(db.SaveFootprint(ctx, store.Footprint{
		FootprintKey: key, Resident: result.Resident, GenerateBase: result.Generate.Base, GeneratePerSequence: result.Generate.PerSequence,
		UpdateBase: result.Update.Base, UpdatePerSequence: result.Update.PerSequence, Profiled: event.Now(), Points: points,
	}), db.Close())
}

func printProfile(w *table.Page, r profiled) {
	w.Printf("%s on %s, torch %s: %s between phases\n\n", r.Model, r.GPU, r.Torch, units.Bytes(r.Resident))
	t := table.New(table.Column{Title: "phase"}, table.Column{Title: "at a time", Right: true}, table.Column{Title: "measured", Right: true},
		table.Column{Title: "line", Right: true}, table.Column{Title: "seconds", Right: true})
	for _, p := range r.Points {
		line, took := r.Generate, units.Bytes(p.Bytes)
		if p.Phase == profile.Update {
			line = r.Update
		}
		if !p.Fits {
			took = "does not fit"
		}
		t.Add(p.Phase, strconv.Itoa(p.Sequences), took, units.Bytes(line.At(p.Sequences)), fmt.Sprintf("%.1f", p.Seconds))
	}
	w.Table(t)
	w.Printf("\ngenerate: %s + %s a completion; update: %s + %s a sequence of the micro-batch\n"+
		"Kept: swarm plan and swarm up count with this from now on, for the same model and settings.\n",
		units.Bytes(r.Generate.Base), fine(r.Generate.PerSequence), units.Bytes(r.Update.Base), fine(r.Update.PerSequence))
}

// fine is units.Bytes for what may be small, and counts many times.
func fine(n int64) string {
	if n < 10_000_000 {
		return fmt.Sprintf("%.0f kB", float64(n)/1e3)
	}
	return units.Bytes(n)
}
