package plan

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/shirou/gopsutil/v4/disk"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/configs/resolve"
	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/layout"
	"github.com/sapo-swarm/swarm/launcher/fit"
	"github.com/sapo-swarm/swarm/launcher/gpu"
	"github.com/sapo-swarm/swarm/node/exchange/membership"
	"github.com/sapo-swarm/swarm/node/policy"
)

// Options are the options of plan, up and join: an experiment's configuration, the number of nodes, and the GPUs.
type Options struct {
	Config       resolve.Flags
	Nodes        string // a number, auto or max
	GPUMemory    Size   // plan: memory of a hypothetical GPU
	HostMemory   Size   // plan: memory of a hypothetical host
	GPULimit     Size   // up: limit per GPU
	MinGPUMemory Size
	Wait         Wait
	Trainer      Trainer // up

	Resume       Resume                        // up: chooses the run to continue; nil elsewhere
	Base         func() (resolve.Layer, error) // join: another host's configuration, which the flags extend
	OnlyGenerate bool                          // join: nodes that do not train
	Hosts        bool                          // up: other hosts may join, and bring all nodes if Nodes is 0
}

// Resume decides which run to continue.
type Resume interface {
	// Take decides for a configuration. It returns the number of nodes to plan for: asked, or that of the run to
	// continue.
	Take(ctx context.Context, c configs.Config, asked string) (nodes string, err error)
	// Kept returns the configuration of the run to continue, after Take. It returns false for a new run.
	Kept() (configs.Config, bool)
}

// Host provides the home, the streams and the interpreter for planning.
type Host struct {
	Home    layout.Home
	Logger  *slog.Logger
	Stderr  io.Writer
	Python  *policy.Interpreter
	Sources func(environ []string, hasCUDA bool) resolve.Sources
	Note    func(*resolve.Flags) // reports which of rl-swarm's variables took effect
}

// NoNodes is the value of --nodes for a host that only coordinates.
const NoNodes = "0"

// Resolve inspects the host, resolves the configuration, waits for a GPU if requested, and plans.
func (p *Options) Resolve(ctx context.Context, h Host) (Planned, error) {
	if p.Nodes == "" {
		return Planned{}, &configs.Error{Key: "nodes", Value: "", Source: "--nodes", Allowed: "auto, max or a whole number from 1"}
	}
	look, err := p.Look(h)
	if err != nil {
		return Planned{}, err
	}
	if err := p.Wait.Check(); err != nil {
		return Planned{}, err
	}
	if err := p.Trainer.check(); err != nil {
		return Planned{}, err
	}
	var out Planned
	switch {
	case p.Hosts && p.Nodes == NoNodes:
		if out, _, err = look(ctx); err == nil {
			out.Plan = fit.Plan{
				Device: fit.DeviceCPU, Share: fit.ShareStatic, Rule: "asked for", Limit: "--nodes",
				Why: "This host trains no nodes (--nodes 0). Workers that join bring the nodes.",
			}
			err = p.checkLag(out)
		}
		return out, err
	case p.Wait.Limit > 0:
		out, err = p.Wait.forGPU(ctx, h.Stderr, look)
	default:
		var request fit.Request
		if out, request, err = look(ctx); err == nil {
			out.Plan, err = fit.New(request)
		}
	}
	if errors.Is(err, fit.ErrRequest) {
		return Planned{}, fail.Usage(err, "swarm plan --help")
	}
	if err != nil {
		return out, err
	}
	if err := out.Config.CheckNodes(out.Plan.Nodes); err != nil {
		return out, err
	}
	if p.Base == nil { // a worker's nodes join those of the coordinator
		if err := out.Config.CheckTeachers(out.Plan.Nodes); err != nil {
			return out, err
		}
	}
	if err := p.checkLag(out); err != nil {
		return out, err
	}
	if !p.Hosts && p.Base == nil { // other hosts may add nodes
		out.Warnings = append(out.Warnings, fewPeers(out.Config, out.Plan.Nodes)...)
	}
	out.Warnings = append(out.Warnings, slices.Concat(out.unlike(), p.idle(out))...)
	return out, nil
}

// checkLag rejects a lag if other hosts may join, because a lag requires that all nodes run on one host.
func (p *Options) checkLag(out Planned) error {
	if lag := out.Config.ExternalLag; p.Hosts && lag > 0 {
		return &configs.Error{Key: "external_lag", Value: strconv.Itoa(lag), Allowed: "0 if others may join (--listen, --nats, --shared)"}
	}
	return nil
}

// Look returns a function that inspects the host and combines it with the flags into a plan's request.
func (p *Options) Look(h Host) (Look, error) {
	var sizes [4]int64
	for i, of := range []struct {
		key  string
		flag *Size
	}{{"gpu-memory", &p.GPUMemory}, {"gpu-memory", &p.GPULimit}, {"min-gpu-memory", &p.MinGPUMemory}, {"host-memory", &p.HostMemory}} {
		var err error
		if sizes[i], err = of.flag.Bytes(of.key); err != nil {
			return nil, err
		}
	}
	table, err := configs.GPUTable()
	if err != nil {
		return nil, err
	}
	if p.Base == nil {
		h.Note(&p.Config)
	}
	return func(ctx context.Context) (Planned, fit.Request, error) {
		host, err := gpu.Detect(ctx)
		if err != nil {
			return Planned{}, fit.Request{}, err
		}
		out := Planned{Host: host, Trainer: p.Trainer}
		if p.Base != nil {
			out.Config, out.Model, err = h.Sources(nil, false).Joined(&p.Config, p.Base)
		} else {
			out.Config, out.Models, out.Warnings, err = h.Sources(os.Environ(), host.Device == gpu.CUDA || sizes[0] > 0).Swarm(&p.Config)
		}
		if err != nil {
			return Planned{}, fit.Request{}, err
		}
		if len(out.Models) > 0 {
			out.Model = out.Models[0]
		}
		if sizes[0] == 0 {
			if note := decidePrecision(&out.Config, host); note != "" {
				out.Warnings, out.Decided = append(out.Warnings, note), true
			}
		}
		out.resolveAuto(p.Hosts)
		c := out.Config
		nodes := p.Nodes
		if asked, notNumber := strconv.Atoi(nodes); notNumber == nil {
			if err := c.CheckNodes(asked); err != nil {
				return Planned{}, fit.Request{}, err
			}
		}
		if p.Resume != nil {
			nodes, err = p.Resume.Take(ctx, out.Asked(), p.Nodes)
			if run, goesOn := p.Resume.Kept(); goesOn {
				out.Keep(run)
			}
			if err != nil {
				return out, fit.Request{}, err
			}
		}
		request := Describe(host, fit.Request{
			Device: c.Device, GPUMemory: sizes[0], GPULimit: sizes[1], MinGPUMemory: sizes[2], HostMemory: sizes[3], Shm: SharedMemory(),
			Apart: os.Getenv(policy.HostVariable) == "off",
			Model: out.Model, Settings: FitSettings(c), Table: table,
			Nodes: nodes, Share: c.Share, SwarmSize: p.most(c, nodes), GPUsPerNode: c.GPUsPerNode, CPUFallback: c.CPUFallback,
		})
		request.Settings.GenerateOnly = p.OnlyGenerate
		if index, ok := strings.CutPrefix(c.Device, "cuda:"); ok {
			request.Device = fit.DeviceCUDA
			request.GPUs, err = oneGPU(request.GPUs, index)
			if err != nil {
				return Planned{}, fit.Request{}, err
			}
			out.Host.GPUs = slices.DeleteFunc(out.Host.GPUs, func(d gpu.GPU) bool { return d.Index != request.GPUs[0].Index })
		}
		if request.GPUMemory == 0 && request.Device != fit.DeviceCPU {
			var notes []string
			request.GPUs, notes = withoutJobs(h, request.GPUs)
			out.Warnings = append(out.Warnings, notes...)
			// the MPS proof needs a Python whose torch has CUDA
			request.MPS = p.Trainer.Command == "" && triesMPS(host, request)
			for _, d := range out.Host.GPUs {
				planned := slices.ContainsFunc(request.GPUs, func(f fit.GPU) bool { return f.Index == d.Index })
				if note := MPSGPU(d, 1).Occupied(); planned && note != "" {
					out.Warnings = append(out.Warnings, note)
				}
			}
		}
		if p.Trainer.Command != "" {
			request.Model.Name, request.Measured = TrainerModel, p.Trainer.footprint()
			return out, request, nil
		}
		footprint := func(Planned) (*fit.Measured, error) { return nil, nil }
		// a hypothetical GPU has no measurements, and profiles are of nodes that train
		if request.GPUMemory == 0 && !p.OnlyGenerate {
			footprint = func(p Planned) (*fit.Measured, error) { return Measured(ctx, h, p) }
		}
		if request.Measured, err = footprint(out); err == nil {
			request.Companions, err = companions(out, footprint)
		}
		return out, request, err
	}, nil
}

// most returns the maximum number of nodes to plan: swarm_size. A worker brings nodes in addition to the
// coordinator's, so it may ask for more, up to membership.MaxNodes.
func (p *Options) most(c configs.Config, asked string) int {
	if n, err := strconv.Atoi(asked); err == nil && p.Base != nil {
		return max(c.SwarmSize, min(n, membership.MaxNodes))
	}
	return c.SwarmSize
}

// FitSettings returns the settings that determine a node's memory.
func FitSettings(c configs.Config) fit.Settings {
	return fit.Settings{
		Precision: c.Precision, GradientCheckpointing: c.GradientCheckpointing, OptimizerOffload: c.OptimizerOffload, ParamOffload: c.ParamOffload,
		CUDAGraphs: c.CUDAGraphs, Beta: c.Beta, NumIterations: c.NumIterations, SortedSampling: c.TopK > 0 || c.TopP < 1,
		Prompts: c.MostOwn(), Generations: c.NumGenerations, Sequences: c.Budget() * c.NumGenerations,
		PromptTokens: c.MaxPromptLength, NewTokens: c.MaxCompletionLength,
		MicroBatch: c.LargestMicroBatch(), AutoBatchSize: c.AutoBatchSize, GradientAccumulationSteps: c.GradientAccumulationSteps,
	}
}

// SharedMemory returns the free bytes in /dev/shm, or -1 if there is none.
func SharedMemory() int64 {
	usage, err := disk.Usage("/dev/shm")
	if err != nil {
		return -1
	}
	return int64(usage.Free)
}

// fewPeers warns if a swarm is too small to provide the external rollouts of a round.
func fewPeers(c configs.Config, nodes int) []string {
	pool := (nodes - 1) * c.NumTrainSamples
	switch {
	case pool >= c.NumTransplantTrees:
		return nil
	case nodes == 1:
		return []string{fmt.Sprintf("a single node has no peers: it trains only on its own %d rollouts per round, not on %d external rollouts (num_transplant_trees)",
			c.NumTrainSamples, c.NumTransplantTrees)}
	}
	return []string{fmt.Sprintf("each of %d nodes receives %d rollouts per round from the others: it trains on at most these, not on %d external rollouts (num_transplant_trees)",
		nodes, pool, c.NumTransplantTrees)}
}

// idle warns about GPU settings that have no effect on the CPU.
func (p *Options) idle(out Planned) []string {
	if out.Plan.Device != fit.DeviceCPU {
		return nil
	}
	var names []string
	for _, s := range []struct {
		name  string
		given bool
	}{
		{"gpus_per_node", out.Config.GPUsPerNode > 1}, {"optimizer_offload", out.Config.OptimizerOffload},
		{"param_offload", out.Config.ParamOffload},
		// an update on the CPU ignores it (engine/batch.py)
		{"micro_batch", p.Config.Gives("micro_batch", os.Environ())},
		{"precision " + out.Config.Precision, p.Config.Gives("precision", os.Environ()) && out.Config.Precision != "auto" && out.Config.Precision != "fp32"},
		{"--min-gpu-memory", p.MinGPUMemory.Given && !out.Config.CPUFallback}, {"--wait-for-gpu", p.Wait.Limit > 0 && !out.Config.CPUFallback},
	} {
		if s.given {
			names = append(names, s.name)
		}
	}
	if names == nil {
		return nil
	}
	return []string{"these apply only to GPUs and have no effect on the CPU: " + strings.Join(names, ", ")}
}

func oneGPU(list []fit.GPU, index string) ([]fit.GPU, error) {
	for _, g := range list {
		if strconv.Itoa(g.Index) == index {
			return []fit.GPU{g}, nil
		}
	}
	return nil, fmt.Errorf("%w: there is no GPU %s among the %d found. Try: swarm doctor", fit.ErrDoesNotFit, index, len(list))
}
