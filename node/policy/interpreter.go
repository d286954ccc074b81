package policy

import (
	"context"
	"fmt"
	"io"
	"os"
)

// Interpreter is the Python of a process's engines, and the engine host that forks them. It searches for Python at
// most once, because importing torch takes a second. It is not safe for concurrent use.
type Interpreter struct {
	Path    string // interpreter to use; empty: SWARM_PYTHON, else the first that has torch
	Home    string // folder below which the engine's files are
	Hosting bool   // engines will be started: the search starts their host, which proves that torch can be imported

	found   Probe       // Path is empty before the search
	own     *Host       // this process's own engine host; nil: none
	client  *HostClient // of its own engine host, or of its parent's; nil: engines start directly
	without error       // why this process could not start an engine host
}

// Find returns the interpreter for engines.
func (i *Interpreter) Find(ctx context.Context) (Probe, error) {
	if i.found.Path != "" {
		return i.found, nil
	}
	found, _, err := i.Search(ctx)
	return found, err
}

// Search searches for Python, and also returns every interpreter that it tried.
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

// probeHost makes an interpreter import torch in an engine host, which continues to run. An inherited host of the
// same interpreter serves as well.
func (i *Interpreter) probeHost(ctx context.Context, path string) Probe {
	i.without = nil // drops the error of an earlier interpreter
	dir, err := Extract(i.Home)
	if err != nil {
		return ProbePython(ctx, path) // starting an engine will report the error
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

// Client returns the client from which to request engines, nil if they start directly.
func (i *Interpreter) Client() *HostClient { return i.client }

// Host returns this process's own engine host, or nil and the reason why it could not be started.
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
