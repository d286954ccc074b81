package mps

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/sapo-swarm/swarm/launcher/supervise"
)

// fatalLine is what an MPS server writes to server.log when a client's fatal error takes the others with it. All may be
// over before anybody asks for the server's status.
var fatalLine = []byte("handling a fatal GPU error")

// Options say what a run's nodes share.
type Options struct {
	Need
	Dir    string // the run's folder; logs and records go to Dir/mps
	Place  []int  // by node index: the place in Need.GPUs of the GPU it is on; -1: it is on none
	Python string // runs the canary with the standard library alone; empty: no proof is made
	Logger *slog.Logger
}

// Host is one run's MPS: a daemon for each GPU, since a fault on one GPU keeps new clients from every GPU of its
// server. It serves as a launch.Sharer, safe for concurrent use.
type Host struct {
	options Options
	daemons []*daemon // as Need.GPUs
	faults  chan Fault

	cancel   context.CancelFunc
	watching sync.WaitGroup
}

// Open checks that MPS can be had, starts its daemons and proves that each governs its clients. Errors wrap
// ErrUnavailable where MPS is the reason, are a *Finding where the proof failed, and leave nothing behind. Close must
// follow.
func Open(ctx context.Context, o Options) (*Host, error) { return open(ctx, o, normalPace) }

func open(ctx context.Context, o Options, p pace) (*Host, error) {
	program, err := o.check("linux", os.Getenv)
	if err != nil {
		return nil, err
	}
	watched, cancel := context.WithCancel(context.WithoutCancel(ctx))
	h := &Host{options: o, faults: make(chan Fault, 16), cancel: cancel}
	for _, g := range o.GPUs {
		d, err := start(ctx, program, filepath.Join(o.Dir, "mps", fmt.Sprintf("gpu%d", g.Index)), g.UUID, p)
		if err == nil {
			h.daemons = append(h.daemons, d)
			if o.Python != "" {
				err = d.prove(ctx, g, o.Python)
			}
		}
		if err != nil {
			return nil, errors.Join(err, h.Close(context.WithoutCancel(ctx)))
		}
	}
	for i, d := range h.daemons {
		h.watching.Go(func() { h.watch(watched, o.GPUs[i].Index, d) })
	}
	return h, nil
}

// ClientEnv is launch.Sharer's: the daemon's directories, and the budget as a limit that the driver keeps.
func (h *Host) ClientEnv(index int, budget int64) []string {
	d, _ := h.of(index)
	if d == nil {
		return nil
	}
	return d.clientEnv(budget)
}

// of returns the daemon and the GPU of a node; nil where it has none.
func (h *Host) of(index int) (*daemon, GPU) {
	if index < 0 || index >= len(h.options.Place) {
		return nil, GPU{}
	}
	place := h.options.Place[index]
	if place < 0 || place >= len(h.daemons) {
		return nil, GPU{}
	}
	return h.daemons[place], h.options.GPUs[place]
}

// BeforeKill is launch.Sharer's: a client that is killed within a kernel can take its server and all other clients with
// it, so that the server first ends its work (terminate_client). It is bounded, and what fails is logged: the kill
// follows in any case.
func (h *Host) BeforeKill(pids []int) {
	// A command that hangs is given up a second after its context.
	ctx, cancel := context.WithTimeout(context.Background(), supervise.AnnounceLimit-time.Second)
	defer cancel()
	var group sync.WaitGroup
	for i, d := range h.daemons {
		group.Go(func() {
			if err := d.terminate(ctx, pids); err != nil {
				h.options.Logger.Warn("MPS did not let go of a node that is about to be killed", "gpu", h.options.GPUs[i].Index, "error", err)
			}
		})
	}
	group.Wait()
}

// Verify tells whether the process that computes for a node (event.Loaded.EnginePID) is a client: nil, or a *Finding of
// kind NotAClient. CUDA falls back to using the GPU without MPS, its limits and its concurrency, when it finds no
// daemon, and says nothing.
func (h *Host) Verify(ctx context.Context, index, pid int) error {
	d, g := h.of(index)
	if d == nil {
		return nil
	}
	listed, err := d.listed(ctx, pid)
	if err != nil || listed {
		return err
	}
	message := fmt.Sprintf("process %d uses the GPU without being a client: no limit holds it", pid)
	return &Finding{Kind: NotAClient, GPU: g.Index, PID: pid, Message: message}
}

// Faults is for launch.Spec. It is closed by Close.
func (h *Host) Faults() <-chan Fault { return h.faults }

// Close ends the daemons and their servers and removes what they left, logs aside. The nodes should be gone. It is
// bounded whatever the state of MPS.
func (h *Host) Close(ctx context.Context) error {
	h.cancel()
	h.watching.Wait()
	close(h.faults)
	failures := make([]error, len(h.daemons))
	var group sync.WaitGroup
	for i, d := range h.daemons {
		group.Go(func() { failures[i] = d.stop(ctx) })
	}
	group.Wait()
	return errors.Join(failures...)
}

// watch looks at a daemon until ctx ends or MPS is beyond help, and announces faults.
func (h *Host) watch(ctx context.Context, gpu int, d *daemon) {
	m, log := monitor{pace: d.control.pace}, newTail(filepath.Join(d.logs, "server.log"))
	var over chan struct{} // of the fault that is announced
	announce := func(f Fault) {
		select {
		case h.faults <- f:
		case <-ctx.Done():
		}
	}
	for pause(ctx, d.control.pace.look) == nil {
		servers, err := d.control.servers(ctx)
		if ctx.Err() != nil {
			return
		}
		what, why := m.see(observation{at: time.Now(), err: err, servers: servers, logged: log.tells(fatalLine)})
		switch what {
		case faulted:
			over = make(chan struct{})
			announce(Fault{GPU: gpu, Message: why, Recovered: over})
		case recovered:
			h.options.Logger.Info("MPS is active again", "gpu", gpu)
			close(over)
		case restart:
			h.options.Logger.Warn("restarting the MPS control daemon", "gpu", gpu, "reason", why)
			if err := d.restart(ctx); err != nil {
				h.options.Logger.Warn("MPS was not restarted", "gpu", gpu, "error", err)
			}
		case fatal:
			announce(Fault{GPU: gpu, Message: why + ". Try: --share lease", Fatal: true})
			return
		}
	}
}
