package workers

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A wait that is over within a second is not reported.
func TestAwaitingIsQuietAtFirst(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	ctx, end := awaiting(t.Context(), &out, "somebody", time.Minute)
	require.NoError(t, ctx.Err())
	end()
	end()
	require.ErrorIs(t, ctx.Err(), context.Canceled)
	require.Empty(t, out.String())
}
