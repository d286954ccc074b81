package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/internal/screen"
)

// How long join waits for the coordinator where --wait does not say: what goes through a folder takes as long as that takes to be synced.
const (
	defaultJoinWait = time.Minute
	folderJoinWait  = 10 * time.Minute
)

const (
	waitQuietly = time.Second      // a coordinator that answers within it is not waited for
	waitLines   = 15 * time.Second // between two lines, where there is no terminal
)

// waitedError says how long was waited in vain.
type waitedError struct{ limit time.Duration }

func (e *waitedError) Error() string { return "waited " + e.limit.String() }

// checkWait refuses a --wait that is no time.
func (o *joinOptions) checkWait() error {
	if o.wait < 0 {
		return &configs.Error{Key: "wait", Value: o.wait.String(), Source: "--wait", Allowed: "a time such as 60s or 10m, or 0 to wait without end"}
	}
	return nil
}

// waitLimit is how long to wait for the coordinator; 0: without end.
func (o *joinOptions) waitLimit() time.Duration {
	if o.shared != "" && !o.waitTyped {
		return folderJoinWait
	}
	return o.wait
}

// awaiting says on stderr what a command waits for, from a second on, until end is called: a line that is rewritten on a terminal, a
// line every 15 s elsewhere. The context ends at the limit with a *waitedError as its cause; 0: it has no limit.
func (g *globals) awaiting(ctx context.Context, what string, limit time.Duration) (_ context.Context, end func()) {
	cancel := context.CancelFunc(func() {})
	began := time.Now()
	if limit > 0 {
		ctx, cancel = context.WithTimeoutCause(ctx, limit, &waitedError{limit})
	}
	done := make(chan struct{})
	var telling sync.WaitGroup
	telling.Go(func() {
		line := screen.NewStatusLine(g.stderr, waitLines)
		line.Soon() // the first one too
		defer line.Clear()
		tick := time.NewTicker(waitQuietly)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			text := fmt.Sprintf("Waiting %d s", int(time.Since(began).Seconds()))
			if limit > 0 {
				text += fmt.Sprintf(" of %s (--wait)", limit)
			}
			line.Say(text + " for " + what) // the end is cut where the terminal is narrow
		}
	})
	return ctx, sync.OnceFunc(func() {
		close(done)
		telling.Wait()
		cancel()
	})
}
