package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/sapo-swarm/swarm/launcher/supervise"
	"github.com/sapo-swarm/swarm/node/policy"
)

// hostFolder is the folder of a run that holds the pid file of its engine host.
const hostFolder = "engine-host"

// startEngines are the commands that start engines.
var startEngines = []string{
	"swarm up", "swarm resume", "swarm join", "swarm sweep", "swarm verify", "swarm eval", "swarm profile", "swarm pretrain", "swarm doctor",
	"swarm model prompt", "swarm model save",
}

// engines are this process's interpreter and the engine host that forks engines of it.
type engines struct {
	hosting bool               // the command starts engines: looking for Python starts their host, which is the proof that torch can be imported
	python  policy.Probe       // Path is empty before it was looked for
	host    *policy.Host       // this process's own; nil: none
	client  *policy.HostClient // of its own host, or of that of the process that started this one; nil: engines start directly
	without error              // why this process could start no host
}

// findPython is the interpreter that engines run on. Importing torch takes a second, so it is looked for once.
func (g *globals) findPython(ctx context.Context) (policy.Probe, error) {
	if g.engines.python.Path != "" {
		return g.engines.python, nil
	}
	found, _, err := g.probePython(ctx)
	return found, err
}

// probePython looks for Python and tells of every interpreter that it tried.
func (g *globals) probePython(ctx context.Context) (policy.Probe, []policy.Probe, error) {
	e := &g.engines
	found, probes, err := policy.FindPython(ctx, g.python, g.home, os.Getenv, func(ctx context.Context, path string) policy.Probe {
		if !e.hosting || os.Getenv(policy.HostVariable) == "off" {
			return policy.ProbePython(ctx, path)
		}
		return g.probeHost(ctx, path)
	})
	if err == nil {
		e.python = found
	}
	return found, probes, err
}

// probeHost has an interpreter import torch in an engine host, which stays. One that this process has inherited is as good.
func (g *globals) probeHost(ctx context.Context, path string) policy.Probe {
	e := &g.engines
	e.without = nil // what another interpreter lacked
	dir, err := policy.Extract(g.home)
	if err != nil {
		return policy.ProbePython(ctx, path) // whoever starts an engine meets the error
	}
	if client := policy.InheritHost(os.Environ()); client != nil {
		hello, err := client.Describe(ctx)
		if err == nil && hello.Python == path && policy.Digest(hello.Package) == policy.Digest(dir) {
			e.client = client
			return policy.Probe{Path: path, Torch: hello.Torch, CUDA: hello.CUDA}
		}
		client.Close()
	}
	host, err := policy.StartHost(ctx, policy.HostOptions{Python: path, Dir: dir, Env: os.Environ()})
	if err != nil {
		e.without = err
		return policy.ProbePython(ctx, path)
	}
	e.host, e.client = host, &host.HostClient
	return policy.Probe{Path: path, Torch: host.Hello.Torch, CUDA: host.Hello.CUDA}
}

// closeEngineHost ends this process's engine host, if it has one.
func (g *globals) closeEngineHost() { g.engines.host.Close() }

// keepHost has a run's log tell of its engine host, and its folder name the host's process, for whoever ends what a killed coordinator left
// behind. The function returned ends that.
func (g *globals) keepHost(ctx context.Context, dir string, logger *slog.Logger) func() {
	host := g.engines.host
	if err := g.engines.without; err != nil {
		logger.Warn("no engine host: each engine imports torch for itself", "err", err)
	}
	if host == nil {
		return func() {}
	}
	path := filepath.Join(dir, hostFolder, supervise.PIDFileName)
	if _, err := supervise.SweepOrphans(ctx, filepath.Dir(path), 0); err != nil {
		logger.Warn("engine host of an earlier coordinator", "err", err)
	}
	host.Watch(logger, func(pid int) {
		err := os.MkdirAll(filepath.Dir(path), 0o755)
		if err == nil {
			err = supervise.Record(path, pid)
		}
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			logger.Warn("engine host not recorded", "pid", pid, "err", err)
		}
	})
	return func() {
		host.Watch(logger, func(int) {})
		os.RemoveAll(filepath.Dir(path))
	}
}
