package sharedir

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"
	"unicode/utf8"

	"github.com/sapo-swarm/swarm/node/exchange"
)

// Gather lists the round's folder and reads new files until the barrier is done; see Exchange. An incomplete file
// counts as not shared yet.
func (d *Dir) Gather(ctx context.Context, round int, peers []string, barrier exchange.Barrier) ([]*exchange.Received, error) {
	start := time.Now()
	ctx, end, err := d.calls.Begin(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	d.scanner.gathers()
	collector := exchange.NewCollector(round, d.o.Node, peers, barrier)
	for {
		failure := d.look(ctx, round, collector)
		if ctx.Err() != nil {
			return nil, fmt.Errorf("gather round %d: %w", round, context.Cause(ctx))
		}
		if err := d.processes.check(d.report); err != nil {
			return nil, fmt.Errorf("gather round %d: %w", round, err)
		}
		elapsed := time.Since(start)
		if done, err := collector.Done(elapsed, failure == nil); done {
			switch {
			case err == nil:
				return collector.Batches(), nil
			case failure != nil:
				return nil, fmt.Errorf("gather round %d: %w (last: %v)", round, err, failure)
			}
			return nil, fmt.Errorf("gather round %d: %w", round, err)
		}
		_ = sleep(ctx, min(d.pause(elapsed), collector.Next(elapsed))) // the loop checks ctx
	}
}

// look adds the available batches of a round. It returns why the folder could not be read.
func (d *Dir) look(ctx context.Context, round int, collector *exchange.Collector) error {
	missing := collector.Missing()
	if len(missing) == 0 {
		return nil
	}
	dir := blockPath(d.o.Run, blockOf(round))
	names, err := d.base.list(dir)
	if err == nil {
		listed := newIndex(names)
		for _, peer := range missing {
			if ctx.Err() != nil {
				return nil
			}
			if data, there := d.readBatch(dir, listed.of(encode(peer), round)); there {
				collector.Add(peer, data)
			}
		}
		err = d.rlswarm.look(round, collector)
	}
	if err != nil {
		err = explain(d.o.Dir, err)
	}
	d.report.trouble(err)
	return err
}

// readBatch reads the first complete file. A complete file that is no batch counts too, so that the swarm sees that its
// sender is at fault.
func (d *Dir) readBatch(dir string, files []rolloutFile) (data []byte, there bool) {
	for _, f := range files {
		packed, err := d.base.take(dir, f.entry, maxPacked)
		switch {
		case errors.Is(err, errPartial):
			continue
		case errors.Is(err, errUnpack), errors.Is(err, fs.ErrInvalid):
			d.report.warn("file "+f.stem, fmt.Sprintf("skipping %.300q in the shared folder: %v", f.name, err))
			continue
		case err != nil:
			d.report.warn("file "+f.stem, fmt.Sprintf("can't read %.300q in the shared folder: %v", f.name, err))
			continue
		}
		data, err := unpack(packed, exchange.MaxBatchBytes)
		if err != nil {
			return unreadable(packed), true
		}
		return data, true
	}
	return nil, false
}

// unreadable returns data that the exchange rejects, in place of content that is no batch.
func unreadable(packed []byte) []byte {
	if len(packed) <= exchange.MaxBatchBytes && !utf8.Valid(packed) {
		return packed
	}
	return []byte{0xff}
}
