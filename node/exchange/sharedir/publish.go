package sharedir

import (
	"context"
	"fmt"
	"time"

	"github.com/sapo-swarm/swarm/node/exchange"
)

const (
	firstBackoff = 100 * time.Millisecond
	lastBackoff  = 10 * time.Second
)

// Publish shares the node's batch. When it returns, the batch is on this machine's disk for the sync program to carry;
// see Exchange. If the folder is full, read-only or unavailable, it retries until ctx ends. If two processes share as
// the same node, the younger one gets an error that matches ErrClosed.
func (d *Dir) Publish(ctx context.Context, batch exchange.Batch) error {
	if batch.Node != d.o.Node {
		return fmt.Errorf("%w: of node %q, published by %q", exchange.ErrInvalid, batch.Node, d.o.Node)
	}
	data, err := exchange.Encode(batch)
	if err != nil {
		return err
	}
	if batch.Round > maxRounds {
		return fmt.Errorf("%w: round %d", exchange.ErrInvalid, batch.Round)
	}
	ctx, end, err := d.calls.Begin(ctx)
	if err != nil {
		return err
	}
	defer end()
	d.publishing.Lock()
	defer d.publishing.Unlock()
	for backoff := firstBackoff; ; backoff = min(2*backoff, lastBackoff) {
		if ctx.Err() != nil {
			return fmt.Errorf("share round %d: %w", batch.Round, context.Cause(ctx))
		}
		if err := d.processes.check(d.report); err != nil {
			return fmt.Errorf("share round %d: %w", batch.Round, err)
		}
		err := d.publish(batch, data)
		if err == nil {
			d.report.trouble(nil)
			return nil
		}
		err = explain(d.o.Dir, err)
		d.report.trouble(err)
		if cause := sleep(ctx, backoff); cause != nil {
			return fmt.Errorf("share round %d: %w (last: %v)", batch.Round, cause, err)
		}
	}
}

// publish makes one attempt.
func (d *Dir) publish(batch exchange.Batch, data []byte) error {
	if err := d.scanner.beforeMark(); err != nil {
		return err
	}
	if err := store(d.base, d.o.Run, batch.Node, batch.Round, d.process, data); err != nil {
		return err
	}
	if err := d.arrivals.mark(batch.Round); err != nil {
		return err
	}
	if d.o.Compat {
		return d.rlswarm.publish(batch, d.o.Worker == "")
	}
	return nil
}

// store writes a batch, unless the node already has a complete one for the round.
func store(t *tree, run, node string, round int, process string, data []byte) error {
	dir := blockPath(run, blockOf(round))
	names, err := t.list(dir)
	if err != nil {
		return err
	}
	for _, candidate := range newIndex(names).of(encode(node), round) {
		if _, err := t.take(dir, candidate.entry, maxPacked); err == nil {
			return nil
		}
	}
	_, err = t.put(dir, rolloutStem(node, round, process), "json.zst", pack(data))
	return err
}

// maxPacked bounds a batch's file in bytes. Incompressible data grow a little.
const maxPacked = exchange.MaxBatchBytes + exchange.MaxBatchBytes>>6
