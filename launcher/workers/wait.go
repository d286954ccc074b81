package workers

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/sapo-swarm/swarm/internal/screen"
)

const (
	waitQuietly = time.Second      // print nothing if the coordinator answers within this time
	waitLines   = 15 * time.Second // between two lines without a terminal
)

// WaitedError reports how long a worker waited in vain.
type WaitedError struct{ Limit time.Duration }

func (e *WaitedError) Error() string { return "waited " + e.Limit.String() }

// awaiting prints on stderr what a worker is waiting for, from one second on until end is called. On a terminal it
// rewrites one line. Elsewhere it prints a line every 15 s. The context ends at the limit with a *WaitedError as
// its cause; 0: no limit.
func awaiting(ctx context.Context, stderr io.Writer, what string, limit time.Duration) (_ context.Context, end func()) {
	cancel := context.CancelFunc(func() {})
	began := time.Now()
	if limit > 0 {
		ctx, cancel = context.WithTimeoutCause(ctx, limit, &WaitedError{limit})
	}
	done := make(chan struct{})
	var telling sync.WaitGroup
	telling.Go(func() {
		line := screen.NewStatusLine(stderr, waitLines)
		line.Soon() // the first line too
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
			line.Say(text + " for " + what) // a narrow terminal cuts the end
		}
	})
	return ctx, sync.OnceFunc(func() {
		close(done)
		telling.Wait()
		cancel()
	})
}
