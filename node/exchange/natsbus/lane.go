package natsbus

import (
	"context"
	"sync"

	"golang.org/x/sync/semaphore"
)

// Bounds of the work that requests are.
const (
	laneRunning = 4        // requests of one lane that run at a time
	laneWaiting = 256      // and that wait
	laneBytes   = 24 << 20 // of what waits and runs in one lane, unless it is one request
	allRunning  = 64
	allBytes    = 512 << 20
)

// lanes runs work in lanes, each bounded, in the order of its coming. It is safe for concurrent use.
type lanes struct {
	ctx     context.Context // of all work, until the end
	slots   *semaphore.Weighted
	running sync.WaitGroup

	mu    sync.Mutex
	lanes map[string]*lane // those that have work
	bytes int
}

type lane struct {
	waiting []task
	running int
	bytes   int
}

type task struct {
	do    func(context.Context)
	bytes int
}

func newLanes(ctx context.Context) *lanes {
	return &lanes{ctx: ctx, slots: semaphore.NewWeighted(allRunning), lanes: map[string]*lane{}}
}

// add queues work in the lane of that name, or returns false where the lane, or all of them together, hold too much. It
// doesn't block.
func (l *lanes) add(name string, bytes int, do func(context.Context)) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	own := l.lanes[name]
	if own == nil {
		own = &lane{}
	}
	full := len(own.waiting) >= laneWaiting || own.bytes > 0 && own.bytes+bytes > laneBytes
	if full || l.bytes+bytes > allBytes || l.ctx.Err() != nil {
		return false
	}
	l.lanes[name] = own
	own.waiting = append(own.waiting, task{do, bytes})
	own.bytes += bytes
	l.bytes += bytes
	if own.running < laneRunning {
		own.running++
		l.running.Go(func() { l.work(name, own) })
	}
	return true
}

// work runs what waits in a lane until nothing does.
func (l *lanes) work(name string, own *lane) {
	for {
		l.mu.Lock()
		if len(own.waiting) == 0 {
			own.running--
			if own.running == 0 {
				delete(l.lanes, name)
			}
			l.mu.Unlock()
			return
		}
		next := own.waiting[0]
		own.waiting = own.waiting[1:]
		l.mu.Unlock()
		if l.slots.Acquire(l.ctx, 1) == nil {
			next.do(l.ctx)
			l.slots.Release(1)
		}
		l.mu.Lock()
		own.bytes -= next.bytes
		l.bytes -= next.bytes
		l.mu.Unlock()
	}
}

// wait returns when no work runs any more; the context has ended by then.
func (l *lanes) wait() { l.running.Wait() }
