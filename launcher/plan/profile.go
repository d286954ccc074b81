package plan

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/sapo-swarm/swarm/internal/screen"
	"github.com/sapo-swarm/swarm/launcher/fit"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/store"
	"github.com/sapo-swarm/swarm/node/model"
	"github.com/sapo-swarm/swarm/node/policy"
	"github.com/sapo-swarm/swarm/node/profile"
)

// Profile starts an engine as a node would and measures its memory with the given numbers of sequences; nil: powers
// of two.
func Profile(ctx context.Context, h Host, p Planned, sizes []int) (profile.Document, error) {
	began := time.Now()
	c, key := p.Config, FootprintKey(p)
	modelDir, err := model.Resolve(p.Model, string(h.Home))
	if err != nil {
		return profile.Document{}, err
	}
	device, env := fit.DeviceCPU, []string(nil)
	if key.GPU != CPUName {
		python, err := h.Python.Find(ctx)
		if err != nil {
			return profile.Document{}, err
		}
		if !python.CUDA {
			return profile.Document{}, NoCUDA(python, "the profile is for a GPU")
		}
		var uuids []string
		for _, d := range mostFree(p) {
			uuids = append(uuids, d.UUID)
		}
		device, env = "cuda:0", []string{"CUDA_VISIBLE_DEVICES=" + strings.Join(uuids, ",")}
	}
	engine, err := h.Python.Start(ctx, h.Stderr, p.Host.Cores, env...)
	if err != nil {
		return profile.Document{}, err
	}
	defer engine.Close()
	var settings FootprintSettings
	if err := json.Unmarshal([]byte(key.Settings), &settings); err != nil {
		return profile.Document{}, fmt.Errorf("read the settings again: %w", err)
	}
	fmt.Fprintf(h.Stderr, "Loading %s on %s.\n", c.Model, key.GPU)
	loaded, err := engine.Load(ctx, policy.LoadParams{
		ModelDir: modelDir, Device: device, Precision: settings.Precision, Threads: p.Host.Cores, GradientCheckpointing: c.GradientCheckpointing,
		OptimizerOffload: c.OptimizerOffload, ParamOffload: c.ParamOffload, CUDAGraphs: settings.CUDAGraphs, Ranks: c.GPUsPerNode,
		AdamBeta1: c.AdamBeta1, AdamBeta2: c.AdamBeta2, AdamEpsilon: c.AdamEpsilon, WeightDecay: c.WeightDecay,
	})
	if err != nil {
		return profile.Document{}, OutOfMemory(err)
	}
	progress := screen.NewStatusLine(h.Stderr, 0)
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
		Progress: func(s profile.Step) { progress.Say(s.Line(time.Since(measuring))) },
	})
	if err != nil {
		return profile.Document{}, OutOfMemory(err)
	}
	if device == fit.DeviceCPU {
		now, err := engine.Memory(ctx)
		if err != nil {
			return profile.Document{}, err
		}
		result.Resident = max(1, result.Resident-engine.Hello.Interpreter(now))
	}
	return profile.Document{
		Model: c.Model, Settings: json.RawMessage(key.Settings), Torch: engine.Hello.Torch, GPU: key.GPU, Resident: result.Resident,
		Generate: result.Generate, Update: result.Update, Points: result.Points, Seconds: time.Since(began).Seconds(),
	}, nil
}

// KeepProfile records a profile as the footprint for later plans.
func KeepProfile(ctx context.Context, h Host, p Planned, result profile.Document) error {
	db, err := store.Open(ctx, h.Home.Database(), store.Options{Warn: store.LogNews(h.Logger)})
	if err != nil {
		return err
	}
	points, err := json.Marshal(result.Points)
	if err != nil {
		return errors.Join(fmt.Errorf("encode the points: %w", err), db.Close())
	}
	key := FootprintKey(p)
	key.Torch = result.Torch
	return errors.Join(db.SaveFootprint(ctx, store.Footprint{
		FootprintKey: key, Resident: result.Resident, GenerateBase: result.Generate.Base, GeneratePerSequence: result.Generate.PerSequence,
		UpdateBase: result.Update.Base, UpdatePerSequence: result.Update.PerSequence, Profiled: event.Now(), Points: points,
	}), db.Close())
}
