package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/store/sqlite"
)

// closingTries bounds the attempts at a failing write after Close was called.
const closingTries = 3

// item is an event, a delivery, or, with flushed, a request to be answered once all earlier items are written.
type item struct {
	event    event.Event
	delivery *delivery
	flushed  chan<- error
}

// events returns the number of events in the item.
func (it *item) events() int {
	switch {
	case it.flushed != nil:
		return 0
	case it.delivery != nil:
		return len(it.delivery.Events)
	}
	return 1
}

// fail answers the caller that waits for an item that will not be written.
func (it *item) fail(err error) {
	switch {
	case it.flushed != nil:
		it.flushed <- err
	case it.delivery != nil:
		it.delivery.answer <- outcome{err: err}
	}
}

// Record queues e. It blocks only while the queue is full, which does not happen with a working disk. It rejects an
// event without a run, of a run that StartRun did not start, or without the payload of its type. It also fails after
// Close and after the writer gave up. Recording an event again, immediately or after a crash, changes nothing.
func (s *Store) Record(ctx context.Context, e event.Event) error {
	if !s.knows(e.Run) {
		return fmt.Errorf("record %s event: run %q was never started here", e.Type, e.Run)
	}
	if err := check(e); err != nil {
		return fmt.Errorf("record %s event: %w", e.Type, err)
	}
	return s.send(ctx, &item{event: e})
}

// knows reports whether this Store started the run.
func (s *Store) knows(run string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.runs[run]
}

// Flush waits until every event recorded before it is in the database and survives the death of this process. A power
// cut may lose the last seconds, but never a node's join.
func (s *Store) Flush(ctx context.Context) error {
	flushed := make(chan error, 1)
	if err := s.send(ctx, &item{flushed: flushed}); err != nil {
		return err
	}
	select {
	case err := <-flushed:
		return err
	case <-ctx.Done():
		return errors.Join(ctx.Err(), s.Err())
	}
}

func (s *Store) send(ctx context.Context, it *item) error {
	s.sending.RLock()
	defer s.sending.RUnlock()
	if s.closed {
		return ErrClosed
	}
	select {
	case <-s.failed:
		return s.Err()
	default:
	}
	select {
	case s.queue <- it:
		return nil
	case <-s.failed:
		return s.Err()
	case <-s.closing:
		return ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
}

// write is the writer's goroutine.
func (s *Store) write() {
	defer close(s.done)
	ticker := time.NewTicker(s.opts.SeenInterval)
	defer ticker.Stop()
	for open := true; open; {
		var b batch
		var due bool
		b, due, open = s.gather(ticker.C)
		var err error
		if b.events > 0 {
			err = s.commit(b)
		}
		if err == nil && due {
			err = s.tend()
		}
		if err != nil {
			s.giveUp(err, b)
			return
		}
		b.answer()
	}
}

// batch is the content of one transaction.
type batch struct {
	items  []*item
	events int // number in items; an empty delivery counts as one, because it also needs an answer
}

// add adds an item and reports whether a caller waits for it, so that the batch must be written immediately.
func (b *batch) add(it *item) (awaited bool) {
	b.items = append(b.items, it)
	b.events += it.events()
	if it.delivery != nil {
		b.events = max(b.events, 1)
	}
	return it.flushed != nil || it.delivery != nil
}

// answer tells waiting callers that the batch is written.
func (b batch) answer() {
	for _, it := range b.items {
		switch {
		case it.flushed != nil:
			it.flushed <- nil
		case it.delivery != nil:
			it.delivery.answer <- it.delivery.out
		}
	}
}

// gather returns the next batch, whether the database needs tending, and whether the queue is still open. A batch ends
// when it is full, after MaxDelay, or at a tick. If a caller waits for it, it ends with the items that are already
// queued, so that callers that wait together share a transaction.
func (s *Store) gather(tick <-chan time.Time) (b batch, due, open bool) {
	var it *item
	select {
	case it, open = <-s.queue:
		if !open {
			return b, false, false
		}
	case <-tick:
		return b, true, true
	}
	timer := time.NewTimer(s.opts.MaxDelay)
	defer timer.Stop()
	for {
		if awaited := b.add(it); awaited {
			open = s.takeQueued(&b)
			return b, false, open
		}
		if b.events >= s.opts.MaxBatch {
			return b, false, true
		}
		select {
		case it, open = <-s.queue:
			if !open {
				return b, false, false
			}
		case <-timer.C:
			return b, false, true
		case <-tick:
			return b, true, true
		}
	}
}

// takeQueued adds queued items up to a full batch, and returns whether the queue is still open.
func (s *Store) takeQueued(b *batch) (open bool) {
	for b.events < s.opts.MaxBatch && len(b.items) < s.opts.MaxBatch {
		select {
		case it, open := <-s.queue:
			if !open {
				return false
			}
			b.add(it)
		default:
			return true
		}
	}
	return true
}

// commit writes a batch in one transaction, and retries for RetryFor if that fails. Meanwhile the queue fills up.
func (s *Store) commit(b batch) error {
	closing := s.closing
	began := time.Now()
	delay := s.opts.RetryDelay
	for tries := 1; ; tries++ {
		err := sqlite.Explain(s.path, s.tab.apply(b.items))
		failed := s.note(err)
		switch {
		case err == nil && failed:
			s.opts.Warn(&Recovered{Path: s.path, After: time.Since(began)})
			return nil
		case err == nil:
			return nil
		case !failed:
			s.opts.Warn(fmt.Errorf("%w: up to %d events wait for at most %s", err, cap(s.queue)+b.events, s.opts.RetryFor))
		}
		if closing == nil && tries >= closingTries || time.Since(began) > s.opts.RetryFor {
			return err
		}
		timer := time.NewTimer(delay)
		select {
		case <-timer.C:
		case <-closing:
			closing, tries = nil, 0
		}
		timer.Stop()
		delay = min(2*delay, 30*time.Second)
		if closing == nil {
			delay = min(delay, 100*time.Millisecond)
		}
	}
}

// note records the result of the newest write, and returns whether the write before it failed.
func (s *Store) note(err error) (failed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	failed = s.writeErr != nil
	s.writeErr = err
	return failed
}

// giveUp publishes the failure and unblocks all waiting callers.
func (s *Store) giveUp(err error, lost batch) {
	for _, it := range lost.items {
		it.fail(err)
	}
	s.mu.Lock()
	s.writeErr = fmt.Errorf("%w (%d events and all later ones were not recorded)", err, lost.events)
	s.mu.Unlock()
	close(s.failed)
	for {
		select {
		case it, open := <-s.queue:
			if !open {
				return
			}
			it.fail(err)
		case <-s.closing:
			s.drain(err)
			return
		}
	}
}

// drain answers the remaining waiting callers after the last Record has returned.
func (s *Store) drain(err error) {
	for it := range s.queue {
		it.fail(err)
	}
}
