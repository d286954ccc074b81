// Package interrupt cancels a command's context on a signal or another external stop, so that the command stops
// cleanly.
package interrupt

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sapo-swarm/swarm/internal/fail"
)

// Echo is the time after the first signal within which another signal counts as the same request. Several senders
// deliver one request twice: timeout(1), a signal to a process group, and a sweep that passes its signal on to its
// run.
const Echo = 300 * time.Millisecond

// Error is the cause of a stop by signal.
type Error struct{ Signal syscall.Signal }

func (e *Error) Error() string { return "stopped by " + unix.SignalName(e.Signal) }

// Watch turns SIGINT, SIGTERM, SIGHUP and the live view's keys into a stop. The first stops cleanly, the second at
// once.
type Watch struct {
	Now  chan struct{} // closed at the second signal
	stop context.CancelCauseFunc

	signals  chan os.Signal
	done     chan struct{}
	watching sync.WaitGroup
	nowOnce  sync.Once
	endOnce  sync.Once

	notice atomic.Pointer[string] // printed at the first signal
}

// noticeLimit bounds how long a stop waits for the reader of its notice.
const noticeLimit = time.Second

// Notify returns a context that ends at the first signal, with an *Error as its cause. Watch prints notice on
// stderr then.
func Notify(ctx context.Context, stderr io.Writer, notice string) (context.Context, *Watch) {
	w := &Watch{Now: make(chan struct{}), signals: make(chan os.Signal, 4), done: make(chan struct{})}
	ctx, w.stop = context.WithCancelCause(ctx)
	w.Answer(notice)
	wanted := []os.Signal{syscall.SIGINT, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // with nohup, swarm up outlives its terminal
		wanted = append(wanted, syscall.SIGHUP)
	}
	signal.Notify(w.signals, wanted...)
	w.watching.Go(func() {
		var first time.Time
		for {
			select {
			case s := <-w.signals:
				again := !first.IsZero()
				switch {
				case !again:
					first = time.Now()
					printed := make(chan struct{})
					go func() {
						defer close(printed)
						fmt.Fprintln(stderr, *w.notice.Load())
					}()
					select {
					case <-printed:
					case <-time.After(noticeLimit): // a terminal after Ctrl-S
					}
				case time.Since(first) < Echo:
					continue
				}
				w.Interrupt(s.(syscall.Signal), again)
			case <-w.done:
				return
			}
		}
	})
	return ctx, w
}

// Answer replaces the notice that the first signal prints.
func (w *Watch) Answer(notice string) { w.notice.Store(&notice) }

// Interrupt stops the command, immediately or cleanly. It does not block.
func (w *Watch) Interrupt(s syscall.Signal, immediately bool) {
	w.stop(&Error{s})
	if immediately {
		w.nowOnce.Do(func() { close(w.Now) })
	}
}

// Fail stops the command cleanly, with why as the cause.
func (w *Watch) Fail(why error) { w.stop(why) }

// Close ends the watch. Signals have their default effect afterwards.
func (w *Watch) Close() {
	w.endOnce.Do(func() {
		signal.Stop(w.signals)
		close(w.done)
		w.watching.Wait()
		w.stop(nil)
	})
}

// WithLimit returns ctx with a time limit. The context also ends when now is closed. The caller must call the
// returned function.
func WithLimit(ctx context.Context, limit time.Duration, now <-chan struct{}) (context.Context, func()) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	var watching sync.WaitGroup
	watching.Go(func() {
		select {
		case <-now:
			cancel()
		case <-ctx.Done():
		}
	})
	return ctx, func() { cancel(); watching.Wait() }
}

// Exit returns the signal's exit code as a fail.ExitError if a signal stopped ctx, else err.
func Exit(ctx context.Context, err error) error {
	var stopped *Error
	if errors.As(context.Cause(ctx), &stopped) {
		return fail.Exit(fail.ExitSignal + int(stopped.Signal))
	}
	return err
}
