package natsbus

import (
	"context"
	"sync"

	"golang.org/x/sync/semaphore"
)

// Bounds of queued requests.
const (
	laneRunning = 4        // running requests per lane
	laneWaiting = 256      // waiting requests per lane
	laneBytes   = 24 << 20 // bytes of waiting and running requests per lane, unless there is only one
	allRunning  = 64
	allBytes    = 512 << 20
)

// lanes runs tasks in bounded lanes. Each lane starts its tasks in order of arrival. It is safe for concurrent use.
type lanes struct {
	ctx     context.Context // for all tasks
	slots   *semaphore.Weighted
	running sync.WaitGroup

	mu    sync.Mutex
	lanes map[string]*lane // lanes with tasks
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

// add queues a task in the named lane. It returns false if that lane, or all of them together, are full. It doesn't
// block.
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

// work runs a lane's tasks until none is waiting.
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

// wait returns when no task is running. Cancel the context first.
func (l *lanes) wait() { l.running.Wait() }
