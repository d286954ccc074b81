package sharedir

import (
	"context"
	"fmt"
	"sync"

	"github.com/sapo-swarm/swarm/node/exchange"
)

// Recent returns what the peers shared recently; see Exchange. Batches are ordered by when this node first saw their
// files. So a batch that the sync carried late counts as new.
func (d *Dir) Recent(ctx context.Context, window exchange.Window) ([]*exchange.Received, error) {
	ctx, end, err := d.calls.Begin(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	if err := d.processes.check(d.report); err != nil {
		return nil, fmt.Errorf("recent rollouts: %w", err)
	}
	if err := d.scan(window); err != nil {
		err = explain(d.o.Dir, err)
		d.report.trouble(err)
		return nil, fmt.Errorf("recent rollouts: %w", err)
	}
	d.report.trouble(nil)
	var out []*exchange.Received
	for _, peer := range window.Peers {
		for _, a := range d.arrivals.since(encode(peer), window.Round, window.Staleness, window.Limit) {
			if ctx.Err() != nil {
				return nil, fmt.Errorf("recent rollouts: %w", context.Cause(ctx))
			}
			if r := d.recent(peer, a.round); r != nil {
				r.Age = a.age
				out = append(out, r)
			}
		}
	}
	return out, nil
}

func (d *Dir) scan(window exchange.Window) error {
	if err := d.scanner.scanRecent(); err != nil {
		return err
	}
	return d.rlswarm.scan(window.Peers, d.arrivals)
}

// recent reads a batch that has arrived. It returns nil if the file is incomplete after all.
func (d *Dir) recent(peer string, round int) *exchange.Received {
	if r := d.recents.get(peer, round); r != nil {
		return r
	}
	files, err := d.scanner.files(encode(peer), round)
	if err != nil {
		return nil // the next scan reports the error
	}
	data, there := d.readBatch(blockPath(d.o.Run, blockOf(round)), files)
	if !there {
		data, there = d.rlswarm.batch(peer, round)
	}
	if !there {
		d.arrivals.forget(encode(peer), round)
		return nil
	}
	r := exchange.Receive(data, peer, round)
	d.recents.put(peer, round, r)
	return r
}

// maxRecentBytes bounds the batches kept in memory for the next window.
const maxRecentBytes = 64 << 20

// recents caches the newest batches that were read.
type recents struct {
	mu    sync.Mutex
	kept  map[recentKey]*exchange.Received
	order []recentKey
	bytes int
}

type recentKey struct {
	peer  string
	round int
}

// get returns a copy. The caller sets its Age.
func (c *recents) get(peer string, round int) *exchange.Received {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.kept[recentKey{peer, round}]
	if r == nil {
		return nil
	}
	again := *r
	return &again
}

func (c *recents) put(peer string, round int, r *exchange.Received) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.kept == nil {
		c.kept = make(map[recentKey]*exchange.Received)
	}
	key := recentKey{peer, round}
	if c.kept[key] != nil {
		return
	}
	kept := *r
	c.kept[key], c.order, c.bytes = &kept, append(c.order, key), c.bytes+r.Bytes
	for c.bytes > maxRecentBytes {
		c.bytes -= c.kept[c.order[0]].Bytes
		delete(c.kept, c.order[0])
		c.order = c.order[1:]
	}
}
