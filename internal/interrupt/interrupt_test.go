package interrupt

import (
	"context"
	"io"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// One request may send two signals, as from timeout(1) or to a whole process group. It stops the run cleanly.
func TestAnEchoedSignalStopsInOrder(t *testing.T) {
	t.Parallel()
	ctx, i := Notify(t.Context(), io.Discard, "")
	defer i.Close()
	i.signals <- syscall.SIGTERM
	i.signals <- syscall.SIGTERM
	<-ctx.Done()
	first := time.Now()
	require.Never(t, func() bool {
		select {
		case <-i.Now:
			return true
		default:
			return false
		}
	}, Echo/2, 10*time.Millisecond)
	require.Eventually(t, func() bool { return time.Since(first) > Echo }, 10*time.Second, 10*time.Millisecond)
	i.signals <- syscall.SIGTERM
	<-i.Now
	var stopped *Error
	require.ErrorAs(t, context.Cause(ctx), &stopped)
}

// A terminal that shows nothing after Ctrl-S must not keep a run from its stop, at the first signal or at the second.
func TestANoticeThatNobodyReadsDoesNotKeepTheStop(t *testing.T) {
	t.Parallel()
	unread, stderr := io.Pipe()
	defer unread.Close()
	ctx, i := Notify(t.Context(), stderr, "Stopping.")
	defer i.Close()
	i.signals <- syscall.SIGTERM
	<-ctx.Done()
	i.signals <- syscall.SIGTERM
	<-i.Now
}
