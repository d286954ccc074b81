package mps

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/sapo-swarm/swarm/launcher/supervise"
)

// fatalLine is the text that an MPS server writes to server.log when a client's fatal error ends the other clients
// too. The fault may be over before the monitor asks for the server's status.
var fatalLine = []byte("handling a fatal GPU error")

// Options describe the MPS of a run.
type Options struct {
	Need
	Dir    string // the run's folder; logs and records are in Dir/mps
	Place  []int  // by node index: the index in Need.GPUs of the node's GPU; -1: no GPU
	Python string // interpreter for the canary, standard library only; empty: no proof
	Logger *slog.Logger
}

// Host is the MPS of one run. It has a daemon for each GPU, because a fault on one GPU blocks new clients on every
// GPU of the same server. Host implements launch.Sharer and is safe for concurrent use.
type Host struct {
	options Options
	daemons []*daemon // as Need.GPUs
	faults  chan Fault

	cancel   context.CancelFunc
	watching sync.WaitGroup
}

// Open checks that MPS is available, starts its daemons and proves that each enforces its clients' limits. Errors
// wrap ErrUnavailable if MPS is the reason, and are a *Finding if the proof failed. A failed Open leaves no process
// behind. Call Close after a successful Open.
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

// ClientEnv implements launch.Sharer. It returns the daemon's directories, and the budget as a limit that the driver
// enforces.
func (h *Host) ClientEnv(index int, budget int64) []string {
	d, _ := h.of(index)
	if d == nil {
		return nil
	}
	return d.clientEnv(budget)
}

// of returns the daemon and the GPU of a node, or nil if the node has no GPU.
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

// BeforeKill implements launch.Sharer. Killing a client within a kernel can end its server and all other clients, so
// the server first ends the client's work (terminate_client). BeforeKill is bounded. It logs failures, because the
// kill follows in any case.
func (h *Host) BeforeKill(pids []int) {
	// A command that hangs is abandoned one second after its context ends.
	ctx, cancel := context.WithTimeout(context.Background(), supervise.AnnounceLimit-time.Second)
	defer cancel()
	var group sync.WaitGroup
	for i, d := range h.daemons {
		group.Go(func() {
			if err := d.terminate(ctx, pids); err != nil {
				h.options.Logger.Warn("MPS did not release a node before its kill", "gpu", h.options.GPUs[i].Index, "error", err)
			}
		})
	}
	group.Wait()
}

// Verify checks that the process that computes for a node (event.Loaded.EnginePID) is a client. It returns nil, or a
// *Finding of kind NotAClient. If CUDA finds no daemon, it silently uses the GPU without MPS, without limits and
// without concurrency.
func (h *Host) Verify(ctx context.Context, index, pid int) error {
	d, g := h.of(index)
	if d == nil {
		return nil
	}
	listed, err := d.listed(ctx, pid)
	if err != nil || listed {
		return err
	}
	message := fmt.Sprintf("process %d uses the GPU without being an MPS client: no memory limit applies to it", pid)
	return &Finding{Kind: NotAClient, GPU: g.Index, PID: pid, Message: message}
}

// Faults returns the channel for launch.Spec. Close closes it.
func (h *Host) Faults() <-chan Fault { return h.faults }

// Close ends the daemons and their servers and removes their files, except logs. End the nodes first. Close is
// bounded in any state of MPS.
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

// watch looks at a daemon and announces faults until ctx ends or MPS can't recover. It polls the daemon when the
// server's log has grown, when one of its processes has ended, during a fault, and else once per pace.rest: each
// command is a process here, and lines in control.log.
func (h *Host) watch(ctx context.Context, gpu int, d *daemon) {
	m, log := monitor{pace: d.control.pace}, newTail(filepath.Join(d.logs, "server.log"))
	var over chan struct{}             // recovery channel of the announced fault
	var polled time.Time               // the last poll
	var processes []supervise.Identity // of the daemon and its servers, at the last poll
	announce := func(f Fault) {
		select {
		case h.faults <- f:
		case <-ctx.Done():
		}
	}
	for pause(ctx, d.control.pace.look) == nil {
		read := log.seen
		logged := log.tells(fatalLine)
		ended := slices.ContainsFunc(processes, func(id supervise.Identity) bool { return !id.Alive() })
		if m.calm() && log.seen == read && !ended && time.Since(polled) < d.control.pace.rest {
			continue
		}
		servers, err := d.control.servers(ctx)
		if ctx.Err() != nil {
			return
		}
		polled, processes = time.Now(), []supervise.Identity{d.id}
		for _, s := range servers {
			id, _ := supervise.Identify(s.pid) // of an ended process: not alive at the next look
			processes = append(processes, id)
		}
		d.trimLog()
		what, why := m.see(observation{at: polled, err: err, servers: servers, logged: logged})
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
				h.options.Logger.Warn("the restart of MPS failed", "gpu", gpu, "error", err)
			}
		case fatal:
			announce(Fault{GPU: gpu, Message: why + ". Try: --share lease", Fatal: true})
			return
		}
	}
}
