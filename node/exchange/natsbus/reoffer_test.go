package natsbus

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// If a coordinator loses its stream, with its disk or because the stream was created again, workers' nodes offer their
// last batches again.
func TestWorkersOfferAgainWhatTheCoordinatorLost(t *testing.T) {
	o := openOffice(t, ServerOptions{})
	anna := o.bus(t, "anna", "anna_0")
	for round := range 4 {
		publish(t, anna, batch("anna_0", round, "of anna"))
	}
	own := join(t, o.server, o.run, "node_0")
	subjects, err := newSubjects(o.run)
	require.NoError(t, err)
	lose := map[string]func(ctx context.Context) error{
		"the stream is made anew": func(ctx context.Context) error {
			return o.server.heal(ctx, o.run, subjects, context.DeadlineExceeded)
		},
		"the store is lost": func(ctx context.Context) error {
			o.server.healing.Lock()
			defer o.server.healing.Unlock()
			if err := o.server.restart(ctx); err != nil {
				return err
			}
			return o.server.create(ctx, o.run, subjects)
		},
	}
	for name, lose := range lose {
		ctx, cancel := context.WithTimeout(t.Context(), soon)
		require.NoError(t, lose(ctx), name)
		require.Eventually(t, func() bool {
			for _, round := range []int{2, 3} {
				if marks(t, own, round, "anna_0")[0] != "of anna" {
					return false
				}
			}
			return true
		}, soon, 20*time.Millisecond, name)
		cancel()
	}
}
