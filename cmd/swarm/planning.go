package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/shirou/gopsutil/v4/disk"
	"github.com/spf13/pflag"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/configs/resolve"
	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/launcher/fit"
	"github.com/sapo-swarm/swarm/launcher/gpu"
	"github.com/sapo-swarm/swarm/launcher/launch"
	"github.com/sapo-swarm/swarm/node/exchange/membership"
	"github.com/sapo-swarm/swarm/node/policy"
)

// planFlags are what plan and up share: an experiment's configuration, how many nodes of it, and which GPUs.
type planFlags struct {
	config       resolve.Flags
	nodes        string
	gpuMemory    sizeFlag // plan: of a card that isn't there
	hostMemory   sizeFlag // plan: of a host that isn't there
	gpuLimit     sizeFlag // up: of each GPU
	minGPUMemory sizeFlag
	wait         waitFlags
	trainer      trainer // up

	resume       *resume                       // up: which run goes on; nil elsewhere
	base         func() (resolve.Layer, error) // join: another host's configuration, to which the flags add
	onlyGenerate bool                          // join: nodes that train nothing
	hosts        bool                          // up: other hosts bring the nodes, where --nodes is 0
}

// sizeFlag holds the text of a size in bytes. Like a resolve.KeyFlag it is read when all flags are known; given empty, it is a mistake.
type sizeFlag struct {
	text  string
	given bool
}

func (s *sizeFlag) String() string { return s.text }

func (s *sizeFlag) Set(text string) error {
	s.text, s.given = text, true
	return nil
}

func (s *sizeFlag) Type() string { return "size" }

// bytes are 0 where the flag wasn't given. A GB is 10^9 bytes.
func (s *sizeFlag) bytes(key string) (int64, error) { return s.bytesOf(key, units.GB) }

// bytesOf is bytes where a GB has so many.
func (s *sizeFlag) bytesOf(key string, gb float64) (int64, error) {
	if !s.given {
		return 0, nil
	}
	size, err := units.ParseSize(s.text, gb)
	if err != nil {
		return 0, &configs.Error{Key: key, Value: s.text, Allowed: units.SizeForms}
	}
	return size, nil
}

func (p *planFlags) add(f *pflag.FlagSet) {
	p.config.AddFlags(f)
	f.StringVar(&p.nodes, "nodes", "auto", "`number` of nodes; auto: the guides' count; max: what memory holds")
	f.Var(&p.minGPUMemory, "min-gpu-memory", "leave out GPUs with less free memory than this `size`, such as 4 or 4GB")
	p.wait.add(f)
}

// noNodes is --nodes of a host that only coordinates.
const noNodes = "0"

// planned is an experiment, ready to be put on this host.
type planned struct {
	config   configs.Config
	model    configs.Model
	models   []configs.Model // of a swarm of different ones each once, model first
	host     gpu.Host
	plan     fit.Plan
	warnings []string
	trainer  trainer
	decided  bool     // config's precision was auto, and is what this host makes of it
	turn     *gpuTurn // held since the decision, where the plan had to wait for a GPU; until the nodes have loaded
}

// asked is the configuration as it was asked for.
func (p planned) asked() configs.Config {
	c := p.config
	if p.decided {
		c.Precision = "auto"
	}
	return c
}

// resolve looks at the host, resolves the configuration and plans, and waits for a GPU where that was asked for.
func (p *planFlags) resolve(ctx context.Context, g *globals) (planned, error) {
	if p.nodes == "" {
		return planned{}, &configs.Error{Key: "nodes", Value: "", Source: "--nodes", Allowed: "auto, max or a whole number from 1"}
	}
	look, err := p.look(g)
	if err != nil {
		return planned{}, err
	}
	if err := p.wait.check(); err != nil {
		return planned{}, err
	}
	if err := p.trainer.check(); err != nil {
		return planned{}, err
	}
	var out planned
	switch {
	case p.hosts && p.nodes == noNodes:
		if out, _, err = look(ctx); err == nil {
			out.plan = fit.Plan{
				Device: fit.DeviceCPU, Share: fit.ShareStatic, Rule: "asked for", Limit: "--nodes",
				Why: "This host trains no nodes of its own (--nodes 0): those who join bring them.",
			}
			err = p.checkLag(out)
		}
		return out, err
	case p.wait.limit > 0:
		out, err = p.wait.forGPU(ctx, g.stderr, look)
	default:
		var request fit.Request
		if out, request, err = look(ctx); err == nil {
			out.plan, err = fit.New(request)
		}
	}
	if errors.Is(err, fit.ErrRequest) {
		return planned{}, fail.Usage(err, "swarm plan --help")
	}
	if err != nil {
		return out, err
	}
	if err := out.config.CheckNodes(out.plan.Nodes); err != nil {
		return out, err
	}
	if err := p.checkLag(out); err != nil {
		return out, err
	}
	if !p.hosts && p.base == nil { // others may bring more
		out.warnings = append(out.warnings, fewPeers(out.config, out.plan.Nodes)...)
	}
	out.warnings = append(out.warnings, slices.Concat(out.unlike(), p.idle(out))...)
	return out, nil
}

// checkLag refuses a lag where others' hosts join: only nodes of one host are waited for, however many rounds apart they are.
func (p *planFlags) checkLag(out planned) error {
	if lag := out.config.ExternalLag; p.hosts && lag > 0 {
		return &configs.Error{Key: "external_lag", Value: strconv.Itoa(lag), Allowed: "0 where others may join (--listen, --nats, --shared)"}
	}
	return nil
}

// look returns what looks at the host and makes a plan's request of it and the flags.
func (p *planFlags) look(g *globals) (look, error) {
	var sizes [4]int64
	for i, of := range []struct {
		key  string
		flag *sizeFlag
	}{{"gpu-memory", &p.gpuMemory}, {"gpu-memory", &p.gpuLimit}, {"min-gpu-memory", &p.minGPUMemory}, {"host-memory", &p.hostMemory}} {
		var err error
		if sizes[i], err = of.flag.bytes(of.key); err != nil {
			return nil, err
		}
	}
	table, err := configs.GPUTable()
	if err != nil {
		return nil, err
	}
	if p.base == nil {
		g.tellEnvironment(&p.config)
	}
	return func(ctx context.Context) (planned, fit.Request, error) {
		host, err := gpu.Detect(ctx)
		if err != nil {
			return planned{}, fit.Request{}, err
		}
		out := planned{host: host, trainer: p.trainer}
		if p.base != nil {
			out.config, out.model, err = configSources(nil, false).Joined(&p.config, p.base)
		} else {
			out.config, out.models, out.warnings, err = configSources(os.Environ(), host.Device == gpu.CUDA || sizes[0] > 0).Swarm(&p.config)
		}
		if err != nil {
			return planned{}, fit.Request{}, err
		}
		if len(out.models) > 0 {
			out.model = out.models[0]
		}
		if sizes[0] == 0 {
			if note := decidePrecision(&out.config, host); note != "" {
				out.warnings, out.decided = append(out.warnings, note), true
			}
		}
		c := out.config
		nodes := p.nodes
		if asked, notNumber := strconv.Atoi(nodes); notNumber == nil {
			if err := c.CheckNodes(asked); err != nil {
				return planned{}, fit.Request{}, err
			}
		}
		if p.resume != nil {
			if nodes, err = p.resume.take(ctx, out.asked(), p.nodes); err != nil {
				return out, fit.Request{}, err
			}
		}
		request := launch.Describe(host, fit.Request{
			Device: c.Device, GPUMemory: sizes[0], GPULimit: sizes[1], MinGPUMemory: sizes[2], HostMemory: sizes[3], Shm: sharedMemory(),
			Apart: os.Getenv(policy.HostVariable) == "off",
			Model: out.model, Settings: fitSettings(c), Table: table,
			Nodes: nodes, Share: c.Share, SwarmSize: p.most(c, nodes), GPUsPerNode: c.GPUsPerNode, CPUFallback: c.CPUFallback,
		})
		request.Settings.GenerateOnly = p.onlyGenerate
		if index, ok := strings.CutPrefix(c.Device, "cuda:"); ok {
			request.Device = fit.DeviceCUDA
			request.GPUs, err = oneGPU(request.GPUs, index)
			if err != nil {
				return planned{}, fit.Request{}, err
			}
			out.host.GPUs = slices.DeleteFunc(out.host.GPUs, func(d gpu.GPU) bool { return d.Index != request.GPUs[0].Index })
		}
		if request.GPUMemory == 0 && request.Device != fit.DeviceCPU {
			var notes []string
			request.GPUs, notes = withoutJobs(g, request.GPUs)
			out.warnings = append(out.warnings, notes...)
			request.MPS = p.trainer.command == "" && triesMPS(host, request) // the proof is of a Python with torch's CUDA
		}
		if p.trainer.command != "" {
			request.Model.Name, request.Measured = trainerModel, p.trainer.footprint()
			return out, request, nil
		}
		footprint := func(planned) (*fit.Measured, error) { return nil, nil }
		if request.GPUMemory == 0 && !p.onlyGenerate { // of a card that isn't there nothing was measured, and a profile is of nodes that train
			footprint = func(p planned) (*fit.Measured, error) { return measured(ctx, g, p) }
		}
		if request.Measured, err = footprint(out); err == nil {
			request.Companions, err = companions(out, footprint)
		}
		return out, request, err
	}, nil
}

// most is how many nodes may be planned: swarm_size, or of a worker, who brings its own beside the coordinator's, as many as it asks for.
func (p *planFlags) most(c configs.Config, asked string) int {
	if n, err := strconv.Atoi(asked); err == nil && p.base != nil {
		return max(c.SwarmSize, min(n, membership.MaxSeats))
	}
	return c.SwarmSize
}

// fitSettings are the configuration's keys that decide what a node takes.
func fitSettings(c configs.Config) fit.Settings {
	return fit.Settings{
		Precision: c.Precision, GradientCheckpointing: c.GradientCheckpointing, OptimizerOffload: c.OptimizerOffload, ParamOffload: c.ParamOffload,
		CUDAGraphs: c.CUDAGraphs, Beta: c.Beta, NumIterations: c.NumIterations, SortedSampling: c.TopK > 0 || c.TopP < 1,
		Prompts: c.MostOwn(), Generations: c.NumGenerations, Sequences: c.Budget() * c.NumGenerations,
		PromptTokens: c.MaxPromptLength, NewTokens: c.MaxCompletionLength,
		MicroBatch: c.LargestMicroBatch(), AutoBatchSize: c.AutoBatchSize, GradientAccumulationSteps: c.GradientAccumulationSteps,
	}
}

// sharedMemory is what is free in /dev/shm, -1 where there is none to ask.
func sharedMemory() int64 {
	usage, err := disk.Usage("/dev/shm")
	if err != nil {
		return -1
	}
	return int64(usage.Free)
}

// fewPeers warns when a swarm is too small for the external rollouts a round should train on.
func fewPeers(c configs.Config, nodes int) []string {
	pool := (nodes - 1) * c.NumTrainSamples
	switch {
	case pool >= c.NumTransplantTrees:
		return nil
	case nodes == 1:
		return []string{fmt.Sprintf("one node has nobody to share with: its rounds train on its own %d rollouts alone, not on %d external ones (num_transplant_trees)",
			c.NumTrainSamples, c.NumTransplantTrees)}
	}
	return []string{fmt.Sprintf("the others of %d nodes share %d rollouts a round: rounds train on no more than those, not on %d external ones (num_transplant_trees)",
		nodes, pool, c.NumTransplantTrees)}
}

// idle warns of settings for GPUs that nodes on the CPU do without.
func (p *planFlags) idle(out planned) []string {
	if out.plan.Device != fit.DeviceCPU {
		return nil
	}
	var names []string
	for _, s := range []struct {
		name  string
		given bool
	}{
		{"gpus_per_node", out.config.GPUsPerNode > 1}, {"optimizer_offload", out.config.OptimizerOffload},
		{"param_offload", out.config.ParamOffload},
		{"micro_batch", p.config.Gives("micro_batch", os.Environ())}, // an update's passes on the CPU don't look at it (engine/batch.py)
		{"precision " + out.config.Precision, p.config.Gives("precision", os.Environ()) && out.config.Precision != "auto" && out.config.Precision != "fp32"},
		{"--min-gpu-memory", p.minGPUMemory.given && !out.config.CPUFallback}, {"--wait-for-gpu", p.wait.limit > 0 && !out.config.CPUFallback},
	} {
		if s.given {
			names = append(names, s.name)
		}
	}
	if names == nil {
		return nil
	}
	return []string{"for GPUs only, without effect on the CPU: " + strings.Join(names, ", ")}
}

func oneGPU(list []fit.GPU, index string) ([]fit.GPU, error) {
	for _, g := range list {
		if strconv.Itoa(g.Index) == index {
			return []fit.GPU{g}, nil
		}
	}
	return nil, fmt.Errorf("%w: there is no GPU %s among the %d found. Try: swarm doctor", fit.ErrDoesNotFit, index, len(list))
}
