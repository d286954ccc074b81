package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sapo-swarm/swarm/metrics/event"
)

// closingTries bounds the attempts at a failing write once Close was called.
const closingTries = 3

// item is an event, or with flushed a request to answer once everything before it is written.
type item struct {
	event   event.Event
	flushed chan<- error
}

// Record queues e. It blocks only while the queue is full, which under a healthy disk it is not. It refuses an event without a
// run, of a run that StartRun never saw, or without the part its type names; and any event after Close or once the
// writer gave up. Recording an event again, at once or after a crash, changes nothing.
func (s *Store) Record(ctx context.Context, e event.Event) error {
	s.mu.Lock()
	known := s.runs[e.Run]
	s.mu.Unlock()
	if !known {
		return fmt.Errorf("record %s event: run %q was never started here", e.Type, e.Run)
	}
	if err := check(e); err != nil {
		return fmt.Errorf("record %s event: %w", e.Type, err)
	}
	return s.send(ctx, item{event: e})
}

// Flush waits until every event recorded before it is in the database, where it survives the death of this process; a power cut
// may take the last seconds.
func (s *Store) Flush(ctx context.Context) error {
	flushed := make(chan error, 1)
	if err := s.send(ctx, item{flushed: flushed}); err != nil {
		return err
	}
	select {
	case err := <-flushed:
		return err
	case <-ctx.Done():
		return errors.Join(ctx.Err(), s.Err())
	}
}

func (s *Store) send(ctx context.Context, it item) error {
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
		var events []event.Event
		var flushes []chan<- error
		var due bool
		events, flushes, due, open = s.gather(ticker.C)
		var err error
		if len(events) > 0 {
			err = s.commit(events)
		}
		if err == nil && due {
			err = s.tend()
		}
		if err != nil {
			s.giveUp(err, len(events), flushes)
			return
		}
		for _, f := range flushes {
			f <- nil
		}
	}
}

// gather returns the next batch, whether it is time to tend the database, and whether the queue is still open. A flush, a full
// batch, MaxDelay and a tick end it.
func (s *Store) gather(tick <-chan time.Time) (events []event.Event, flushes []chan<- error, due, open bool) {
	var it item
	select {
	case it, open = <-s.queue:
		if !open {
			return nil, nil, false, false
		}
	case <-tick:
		return nil, nil, true, true
	}
	timer := time.NewTimer(s.opts.MaxDelay)
	defer timer.Stop()
	for {
		if it.flushed != nil {
			return events, append(flushes, it.flushed), false, true
		}
		events = append(events, it.event)
		if len(events) >= s.opts.MaxBatch {
			return events, nil, false, true
		}
		select {
		case it, open = <-s.queue:
			if !open {
				return events, nil, false, false
			}
		case <-timer.C:
			return events, nil, false, true
		case <-tick:
			return events, nil, true, true
		}
	}
}

// commit writes events in one transaction, and again while that fails, for RetryFor. The queue fills up meanwhile.
func (s *Store) commit(events []event.Event) error {
	closing := s.closing
	began := time.Now()
	delay := s.opts.RetryDelay
	for tries := 1; ; tries++ {
		err := explain(s.path, s.tab.apply(events))
		failed := s.note(err)
		switch {
		case err == nil && failed:
			s.opts.Warn(&Recovered{Path: s.path, After: time.Since(began)})
			return nil
		case err == nil:
			return nil
		case !failed:
			s.opts.Warn(fmt.Errorf("%w: up to %d events wait for it, %s at most", err, cap(s.queue)+len(events), s.opts.RetryFor))
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

// note keeps the outcome of the newest write, and returns whether the one before it failed.
func (s *Store) note(err error) (failed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	failed = s.writeErr != nil
	s.writeErr = err
	return failed
}

// giveUp makes the failure known, and everything that waits return.
func (s *Store) giveUp(err error, lost int, flushes []chan<- error) {
	for _, f := range flushes {
		f <- err
	}
	s.mu.Lock()
	s.writeErr = fmt.Errorf("%w (%d events and all later ones were not recorded)", err, lost)
	s.mu.Unlock()
	close(s.failed)
	for {
		select {
		case it, open := <-s.queue:
			if !open {
				return
			}
			if it.flushed != nil {
				it.flushed <- err
			}
		case <-s.closing:
			s.drain(err)
			return
		}
	}
}

// drain answers the flushes that are left once no Record is sending any more.
func (s *Store) drain(err error) {
	for it := range s.queue {
		if it.flushed != nil {
			it.flushed <- err
		}
	}
}
