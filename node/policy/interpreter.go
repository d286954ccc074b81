package policy

import (
	"context"
	"fmt"
	"io"
	"os"
)

// Interpreter is the Python on which a process's engines run, and the engine host that forks them. It looks for Python
// at most once, since importing torch takes a second. It is not for use by several goroutines at once.
type Interpreter struct {
	Path    string // the one to use; empty: SWARM_PYTHON, else the first that has torch
	Home    string // the folder below which the engine's files lie
	Hosting bool   // engines will be started: looking for Python starts their host, which proves that torch can be imported

	found   Probe       // Path is empty before it was looked for
	own     *Host       // this process's own engine host; nil: none
	client  *HostClient // of its own engine host, or of that of the process that started this one; nil: engines start directly
	without error       // why this process could start no engine host
}

// Find returns the interpreter that engines run on.
func (i *Interpreter) Find(ctx context.Context) (Probe, error) {
	if i.found.Path != "" {
		return i.found, nil
	}
	found, _, err := i.Search(ctx)
	return found, err
}

// Search looks for Python, and returns every interpreter that it tried too.
func (i *Interpreter) Search(ctx context.Context) (Probe, []Probe, error) {
	found, probes, err := FindPython(ctx, i.Path, i.Home, os.Getenv, func(ctx context.Context, path string) Probe {
		if !i.Hosting || os.Getenv(HostVariable) == "off" {
			return ProbePython(ctx, path)
		}
		return i.probeHost(ctx, path)
	})
	if err == nil {
		i.found = found
	}
	return found, probes, err
}

// probeHost has an interpreter import torch in an engine host, which stays. One that this process has inherited is as
// good.
func (i *Interpreter) probeHost(ctx context.Context, path string) Probe {
	i.without = nil // what another interpreter lacked
	dir, err := Extract(i.Home)
	if err != nil {
		return ProbePython(ctx, path) // whoever starts an engine meets the error
	}
	if client := InheritHost(os.Environ()); client != nil {
		hello, err := client.Describe(ctx)
		if err == nil && hello.Python == path && Digest(hello.Package) == Digest(dir) {
			i.client = client
			return Probe{Path: path, Torch: hello.Torch, CUDA: hello.CUDA}
		}
		client.Close()
	}
	host, err := StartHost(ctx, HostOptions{Python: path, Dir: dir, Env: os.Environ()})
	if err != nil {
		i.without = err
		return ProbePython(ctx, path)
	}
	i.own, i.client = host, &host.HostClient
	return Probe{Path: path, Torch: host.Hello.Torch, CUDA: host.Hello.CUDA}
}

// Client is where engines are asked for; nil: they start directly.
func (i *Interpreter) Client() *HostClient { return i.client }

// Host is this process's own engine host, or nil, and why none could be started.
func (i *Interpreter) Host() (*Host, error) { return i.own, i.without }

// Start starts an engine outside of a node, with more in its environment. The caller closes it.
func (i *Interpreter) Start(ctx context.Context, stderr io.Writer, threads int, more ...string) (*Engine, error) {
	python, err := i.Find(ctx)
	if err != nil {
		return nil, err
	}
	dir, err := Extract(i.Home)
	if err != nil {
		return nil, err
	}
	env := append(os.Environ(), fmt.Sprintf("OMP_NUM_THREADS=%d", threads), fmt.Sprintf("OPENBLAS_NUM_THREADS=%d", threads))
	env = append(env, more...)
	return Start(ctx, Options{Python: python.Path, Dir: dir, Env: env, Stderr: stderr, Host: i.Client()})
}

// Close ends this process's engine host, if it has one.
func (i *Interpreter) Close() { i.own.Close() }
