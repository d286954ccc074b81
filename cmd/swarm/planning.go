package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/launcher"
	"github.com/sapo-swarm/swarm/launcher/fit"
	"github.com/sapo-swarm/swarm/launcher/gpu"
)

// planFlags are what plan and up share: an experiment's configuration and how many nodes of it.
type planFlags struct {
	config    configFlags
	nodes     string
	gpuMemory string
}

func (p *planFlags) add(f *pflag.FlagSet) {
	p.config.add(f)
	f.StringVar(&p.nodes, "nodes", "auto", "`number` of nodes; auto: the guides' count; max: what memory holds")
}

// planned is an experiment, ready to be put on this host.
type planned struct {
	config   configs.Config
	model    configs.Model
	host     gpu.Host
	plan     fit.Plan
	warnings []string
}

// resolve looks at the host, resolves the configuration and plans.
func (p *planFlags) resolve(ctx context.Context) (planned, error) {
	memory, err := parseBytes("gpu-memory", p.gpuMemory)
	if err != nil {
		return planned{}, err
	}
	host, err := gpu.Detect(ctx)
	if err != nil {
		return planned{}, err
	}
	out := planned{host: host}
	out.config, out.model, out.warnings, err = resolveConfig(&p.config, os.Environ(), host.Device == gpu.CUDA || memory > 0)
	if err != nil {
		return planned{}, err
	}
	table, err := configs.GPUTable()
	if err != nil {
		return planned{}, err
	}
	c := out.config
	request := launcher.Describe(host, fit.Request{
		Device: c.Device, GPUMemory: memory,
		Model: out.model, Table: table, Nodes: p.nodes, SwarmSize: c.SwarmSize,
		Sequences: (c.NumTrainSamples + c.NumTransplantTrees) * c.NumGenerations,
		Tokens:    min(out.model.Shape.Context, c.MaxPromptLength+c.MaxCompletionLength),
	})
	if c.MicroBatch > 0 {
		request.Sequences = min(request.Sequences, c.MicroBatch)
	}
	if index, ok := strings.CutPrefix(c.Device, "cuda:"); ok {
		request.Device = fit.DeviceCUDA
		request.GPUs, err = oneGPU(request.GPUs, index)
		if err != nil {
			return planned{}, err
		}
	}
	out.plan, err = fit.New(request)
	if errors.Is(err, fit.ErrRequest) {
		return planned{}, &usageError{err, "swarm plan --help"}
	}
	if err == nil {
		out.warnings = append(out.warnings, fewPeers(c, out.plan.Nodes)...)
	}
	return out, err
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

func oneGPU(list []fit.GPU, index string) ([]fit.GPU, error) {
	for _, g := range list {
		if strconv.Itoa(g.Index) == index {
			return []fit.GPU{g}, nil
		}
	}
	return nil, fmt.Errorf("%w: there is no GPU %s among the %d found. Try: swarm doctor", fit.ErrDoesNotFit, index, len(list))
}

// parseBytes reads a size such as 40GB, 512MB, 16GiB or a number of bytes; empty is 0.
func parseBytes(key, text string) (int64, error) {
	if text == "" {
		return 0, nil
	}
	refuse := &configs.Error{Key: key, Value: text, Allowed: "a size such as 40GB, 24576MiB or 512MB"}
	units := []struct {
		suffix string
		factor float64
	}{{"gib", 1 << 30}, {"mib", 1 << 20}, {"gb", 1e9}, {"mb", 1e6}, {"g", 1e9}, {"m", 1e6}, {"b", 1}, {"", 1}}
	lower := strings.ToLower(strings.TrimSpace(text))
	for _, u := range units {
		number, ok := strings.CutSuffix(lower, u.suffix)
		if !ok {
			continue
		}
		value, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
		if err != nil || !(value > 0) || value*u.factor > 1e15 {
			return 0, refuse
		}
		return int64(value * u.factor), nil
	}
	return 0, refuse
}

// gb writes bytes as people and the guides do: GB of 10^9.
func gb(n int64) string {
	if n < 1e9 {
		return fmt.Sprintf("%.0f MB", float64(n)/1e6)
	}
	return fmt.Sprintf("%.1f GB", float64(n)/1e9)
}
