// Package interrupt turns signals and other external stops of a command into a canceled context, so that it stops in
// order.
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

// Echo is how soon after the first signal another is still the same request: timeout, a process group's signal and a
// sweep that passes on what its run got as well make two of one.
const Echo = 300 * time.Millisecond

// Error is why a command was stopped from outside.
type Error struct{ Signal syscall.Signal }

func (e *Error) Error() string { return "stopped by " + unix.SignalName(e.Signal) }

// Watch turns SIGINT, SIGTERM, SIGHUP and the live view's keys into a stop: the first in order, the second at once.
type Watch struct {
	Now  chan struct{} // closed at the second
	stop context.CancelCauseFunc

	signals  chan os.Signal
	done     chan struct{}
	watching sync.WaitGroup
	nowOnce  sync.Once
	endOnce  sync.Once

	notice atomic.Pointer[string] // what the first signal is answered with
}

// Notify returns a context that ends, with an *Error as its cause, at the first signal, which notice answers on stderr.
func Notify(ctx context.Context, stderr io.Writer, notice string) (context.Context, *Watch) {
	w := &Watch{Now: make(chan struct{}), signals: make(chan os.Signal, 4), done: make(chan struct{})}
	ctx, w.stop = context.WithCancelCause(ctx)
	w.Answer(notice)
	wanted := []os.Signal{syscall.SIGINT, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // nohup swarm up outlives its terminal
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
					fmt.Fprintln(stderr, *w.notice.Load())
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

// Answer changes what the first signal is answered with.
func (w *Watch) Answer(notice string) { w.notice.Store(&notice) }

// Interrupt stops the command, immediately or in order. It does not block.
func (w *Watch) Interrupt(s syscall.Signal, immediately bool) {
	w.stop(&Error{s})
	if immediately {
		w.nowOnce.Do(func() { close(w.Now) })
	}
}

// Fail stops the command in order for a reason of its own.
func (w *Watch) Fail(why error) { w.stop(why) }

// Close ends the watch: from then on a signal does what it does to any program.
func (w *Watch) Close() {
	w.endOnce.Do(func() {
		signal.Stop(w.signals)
		close(w.done)
		w.watching.Wait()
		w.stop(nil)
	})
}

// WithLimit is ctx with a limit, ended also when now is closed. The function that it returns must be called.
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

// Exit is the error of what a signal may have ended: then it is the signal's exit code, as a fail.ExitError.
func Exit(ctx context.Context, err error) error {
	var stopped *Error
	if errors.As(context.Cause(ctx), &stopped) {
		return fail.Exit(fail.ExitSignal + int(stopped.Signal))
	}
	return err
}
