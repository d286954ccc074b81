package main

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
)

// signalEcho is how soon after the first signal another is still the same request: timeout, a process group's signal and a sweep that passes
// on what its run got as well make two of one.
const signalEcho = 300 * time.Millisecond

// signalError is why a run was stopped from outside.
type signalError struct{ signal syscall.Signal }

func (e *signalError) Error() string { return "stopped by " + unix.SignalName(e.signal) }

// interrupts turns SIGINT, SIGTERM, SIGHUP and the live view's keys into a stop: the first in order, the second at once.
type interrupts struct {
	now  chan struct{} // closed at the second
	stop context.CancelCauseFunc

	signals  chan os.Signal
	done     chan struct{}
	watching sync.WaitGroup
	nowOnce  sync.Once
	endOnce  sync.Once

	notice atomic.Pointer[string] // what the first signal is answered with
}

// watchSignals returns a context that ends, with a *signalError as its cause, at the first signal, which notice answers.
func watchSignals(ctx context.Context, stderr io.Writer, notice string) (context.Context, *interrupts) {
	i := &interrupts{now: make(chan struct{}), signals: make(chan os.Signal, 4), done: make(chan struct{})}
	ctx, i.stop = context.WithCancelCause(ctx)
	i.answer(notice)
	wanted := []os.Signal{syscall.SIGINT, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // nohup swarm up outlives its terminal
		wanted = append(wanted, syscall.SIGHUP)
	}
	signal.Notify(i.signals, wanted...)
	i.watching.Go(func() {
		var first time.Time
		for {
			select {
			case s := <-i.signals:
				again := !first.IsZero()
				switch {
				case !again:
					first = time.Now()
					fmt.Fprintln(stderr, *i.notice.Load())
				case time.Since(first) < signalEcho:
					continue
				}
				i.interrupt(s.(syscall.Signal), again)
			case <-i.done:
				return
			}
		}
	})
	return ctx, i
}

// answer changes what the first signal is answered with.
func (i *interrupts) answer(notice string) { i.notice.Store(&notice) }

// What up and join answer the first signal with: before any node has loaded there is nothing to save.
const (
	stopEarly = "Stopping: no node has started yet. Again to stop now."
	stopSaved = "Stopping after a checkpoint. Again to stop now."
)

// interrupt stops the run, immediately or in order. It does not block.
func (i *interrupts) interrupt(s syscall.Signal, immediately bool) {
	i.stop(&signalError{s})
	if immediately {
		i.nowOnce.Do(func() { close(i.now) })
	}
}

// fail stops the run in order for a reason of its own.
func (i *interrupts) fail(why error) { i.stop(why) }

// close ends the watch: from then on a signal does what it does to any program.
func (i *interrupts) close() {
	i.endOnce.Do(func() {
		signal.Stop(i.signals)
		close(i.done)
		i.watching.Wait()
		i.stop(nil)
	})
}

// unlessHurried is ctx with a limit, ended also when now is closed. The function that it returns must be called.
func unlessHurried(ctx context.Context, limit time.Duration, now <-chan struct{}) (context.Context, func()) {
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

// stoppedBy is the error of what a signal may have ended: then it is the signal's exit code.
func stoppedBy(ctx context.Context, err error) error {
	var stopped *signalError
	if errors.As(context.Cause(ctx), &stopped) {
		return &silentError{exitSignal + int(stopped.signal)}
	}
	return err
}
