package membership

import (
	"context"
	"fmt"
	"time"

	"github.com/sapo-swarm/swarm/metrics/event"
)

const maxOutboxBytes = 64 // of an outbox's name

// Deliver records a part of a worker's outbox. Its answer always has the last number in the database, so duplicate,
// late or early deliveries are harmless.
func (r *AdmissionServer) Deliver(ctx context.Context, worker string, d Delivery) (Receipt, error) {
	size, refusal := checkDelivery(d)
	if refusal != nil {
		return Receipt{}, refusal
	}
	s, refusal := r.sender(worker, d)
	if refusal != nil {
		return Receipt{}, refusal
	}
	select { // one at a time
	case s.busy <- struct{}{}:
		defer func() { <-s.busy }()
	case <-ctx.Done():
		return Receipt{}, internal(ctx.Err())
	}
	acked, err := r.acked(ctx, s, d.Outbox)
	if err != nil {
		return Receipt{}, r.logged("deliver", internal(err))
	}
	last := d.First + int64(len(d.Events)) - 1
	if d.First > acked+1 || last <= acked {
		return Receipt{Acked: acked}, nil
	}
	d.Events, d.First = d.Events[acked+1-d.First:], acked+1
	if wait := r.afford(s, len(d.Events), size); wait > 0 {
		return Receipt{Acked: acked, RetryAfter: wait.Seconds()}, nil
	}
	events := r.examine(s, d)
	if err := r.o.Deliver(ctx, worker, d, events); err != nil {
		r.forget(s, d.Outbox)
		return Receipt{}, r.logged("deliver", internal(err))
	}
	r.lock()
	defer r.flush()
	s.remember(d.Outbox, last)
	s.bytes += int64(size)
	r.moved = r.o.Now()
	return Receipt{Acked: last}, nil
}

// checkDelivery checks a delivery against the bounds and returns its size in bytes.
func checkDelivery(d Delivery) (size int, refusal *Refusal) {
	for _, raw := range d.Events {
		size += len(raw)
	}
	switch {
	case len(d.Events) > MaxDeliveryEvents || size > MaxMessageBytes:
		return 0, Refuse(CodeMalformed, "a delivery of %d events and %d bytes: at most %d and %d", len(d.Events), size, MaxDeliveryEvents, MaxMessageBytes)
	case d.First < 1 || d.First > 1<<53:
		return 0, Refuse(CodeMalformed, "a delivery from number %d", d.First)
	case d.Outbox == "" || len(d.Outbox) > maxOutboxBytes || !plain(d.Outbox, "-_"):
		return 0, Refuse(CodeMalformed, "an outbox name has at most %d letters, digits, - and _", maxOutboxBytes)
	}
	return size, nil
}

// sender admits the worker of a delivery.
func (r *AdmissionServer) sender(worker string, d Delivery) (*session, *Refusal) {
	r.lock()
	defer r.flush()
	s, refusal := r.request(worker)
	if refusal != nil {
		return nil, refusal
	}
	if refusal := r.speaks(s, d.Protocol, ""); refusal != nil {
		return nil, refusal
	}
	if refusal := r.runs(d.Run); refusal != nil {
		return nil, refusal
	}
	if s.state == event.WorkerConnected {
		r.observe(s)
	}
	return s, nil
}

// acked returns the number of the outbox's last event in the database.
func (r *AdmissionServer) acked(ctx context.Context, s *session, outbox string) (int64, error) {
	r.mu.Lock()
	acked, ok := s.acked[outbox]
	r.mu.Unlock()
	if ok {
		return acked, nil
	}
	acked, err := r.o.Acked(ctx, s.worker, outbox)
	if err != nil {
		return 0, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	s.remember(outbox, acked)
	return acked, nil
}

func (r *AdmissionServer) forget(s *session, outbox string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(s.acked, outbox)
}

// afford charges the delivery to the worker's rates, or returns how long to wait.
func (r *AdmissionServer) afford(s *session, events, size int) time.Duration {
	r.lock()
	defer r.flush()
	if r.o.Trusted {
		return 0
	}
	now, bytes := r.o.Now(), float64(size)
	long := s.rates.kept.wait(now, bytes)
	g := r.groupOf(s)
	if g != nil {
		if wait := max(g.kept.wait(now, bytes), g.bytes.wait(now, bytes), g.events.wait(now, float64(events))); wait > 0 {
			s.reason = "the workers of its invitation have delivered more than their shared allowance and must wait"
			r.warn(s, "group", "worker "+s.worker+": "+s.reason)
			return wait
		}
	}
	if long > 0 {
		s.reason = fmt.Sprintf("it has delivered more than %d KiB/s on average and must wait", keptRate>>10)
		r.warn(s, "kept", "worker "+s.worker+": "+s.reason+". Try: swarm workers ban "+s.worker+", if its nodes do not explain it")
	}
	if wait := max(long, s.rates.bytes.wait(now, bytes), s.rates.events.wait(now, float64(events))); wait > 0 {
		return wait
	}
	s.rates.kept.take(now, bytes)
	s.rates.bytes.take(now, bytes)
	s.rates.events.take(now, float64(events))
	if g != nil {
		g.kept.take(now, bytes)
		g.bytes.take(now, bytes)
		g.events.take(now, float64(events))
	}
	return 0
}

// examine returns the events to record: as many as in the delivery, in order, with rejected ones replaced.
func (r *AdmissionServer) examine(s *session, d Delivery) []event.Event {
	r.mu.Lock()
	now := unix(r.o.Now())
	clock := s.drift
	owned := make(map[string]bool, len(s.assignments))
	for _, assignment := range s.assignments {
		owned[assignment.Node] = true
	}
	r.mu.Unlock()
	x := examiner{
		run: r.o.Run, worker: s.worker, cfg: r.o.Cfg, rounds: r.o.Rounds,
		owns:    func(node string) bool { return owned[node] },
		correct: func(theirs float64) float64 { return clock.correct(now, theirs) },
	}
	events := make([]event.Event, len(d.Events))
	var first error
	dropped := 0
	for i, raw := range d.Events {
		e, err := x.accept(raw)
		if err != nil {
			e = nothing(r.o.Run, s.worker, now)
			if string(raw) != string(tombstone) {
				dropped++
				if first == nil {
					first = err
				}
			}
		}
		events[i] = e
	}
	if dropped > 0 {
		r.drop(s, dropped, first)
	}
	return events
}

func (r *AdmissionServer) drop(s *session, n int, why error) {
	r.lock()
	defer r.flush()
	s.dropped += int64(n)
	s.reason = "an event was refused: " + Tidy(why.Error(), 200)
	r.warn(s, "events", fmt.Sprintf("%d events of worker %s were refused, the first because %s", n, s.worker, Tidy(why.Error(), 200)))
}
