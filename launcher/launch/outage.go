package launch

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/sapo-swarm/swarm/metrics/event"
)

// outage is a time in which a pool's nodes must not run. A pool always has a current or future outage.
type outage struct {
	begun   chan struct{} // closed when it starts
	message string        // description; valid after begun
	over    chan struct{} // closed when it has ended
	lost    string        // why no node will run on the pool again, or empty; valid after over
	fatal   chan string   // reports during the outage that it is permanent
}

func newOutage() *outage {
	return &outage{begun: make(chan struct{}), over: make(chan struct{}), fatal: make(chan string, 1)}
}

// strikes reports whether the outage has started or starts within the given time.
func (o *outage) strikes(ctx context.Context, within time.Duration) bool {
	select {
	case <-o.begun:
		return true
	default:
	}
	if within <= 0 {
		return false
	}
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case <-o.begun:
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	return false
}

// await waits for the end of the outage. It returns why the pool is lost, or "".
func (o *outage) await(ctx context.Context) (lost string, err error) {
	select {
	case <-o.over:
		return o.lost, nil
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// next returns the current or next outage.
func (r *devicePool) next() *outage {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.outage
}

// watchFaults closes pools with faults and reopens them, until ctx ends.
func (s *swarm) watchFaults(ctx context.Context) {
	var ending sync.WaitGroup
	defer ending.Wait()
	for {
		select {
		case <-ctx.Done():
			return
		case f, more := <-s.spec.Faults:
			if !more {
				return
			}
			for _, r := range s.pools {
				if !r.isGPU() || f.GPU >= 0 && !slices.Contains(r.gpus, f.GPU) {
					continue
				}
				o, wait, news := r.strike(f)
				if news {
					s.emit("", event.Event{Type: event.TypeWarning, Message: r.name + ": " + f.Message + ": its nodes are stopped"})
				}
				if o != nil {
					ending.Go(func() { r.open(ctx, o, f, wait, s.spec.FaultTimeout) })
				}
			}
		}
	}
}

// strike starts an outage. It returns the outage if open must end it, the wait after the fault is over, and whether
// the fault is new. For a closed pool, only a fatal fault is new.
func (r *devicePool) strike(f Fault) (open *outage, wait time.Duration, news bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	o := r.outage
	message := r.name + ": " + f.Message
	select {
	case <-o.begun:
		if f.Fatal {
			select {
			case o.fatal <- message:
			default:
			}
		}
		return nil, 0, f.Fatal
	default:
	}
	o.message = message
	close(o.begun)
	wait, again := r.faults.Add(time.Since(r.sound), 0)
	if f.Fatal || !again {
		o.lost = message
		if !f.Fatal {
			o.lost += ", again and again"
		}
		close(o.over)
		return nil, 0, true
	}
	return o, wait, true
}

// open ends an outage after the fault is over and the wait has passed. The pool is lost if the fault takes longer
// than limit.
func (r *devicePool) open(ctx context.Context, o *outage, f Fault, wait, limit time.Duration) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	lost := ""
	recovered := f.Recovered
	if recovered == nil {
		now := make(chan struct{})
		close(now)
		recovered = now
	}
	select {
	case <-recovered:
		lost = o.pause(ctx, wait)
	case lost = <-o.fatal:
	case <-timer.C:
		lost = fmt.Sprintf("%s, and not resolved after %s", o.message, limit)
	case <-ctx.Done():
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case lost = <-o.fatal:
	default:
	}
	o.lost = lost
	if lost == "" {
		r.outage, r.sound = newOutage(), time.Now()
	}
	close(o.over)
}

// pause waits, unless the outage turns out to be permanent.
func (o *outage) pause(ctx context.Context, wait time.Duration) (lost string) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	case lost = <-o.fatal:
	}
	return lost
}
