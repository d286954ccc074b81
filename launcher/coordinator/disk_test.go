package coordinator

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

// As the disk fills up, diskBudget warns, then drops spare checkpoints, then stops the run, each once and at its
// threshold.
func TestADiskThatFills(t *testing.T) {
	t.Parallel()
	const wave = 100 << 20
	const stopAt = diskReserve + wave
	var said []string
	free, spares := int64(10*wave), int64(50<<20)
	var stopped error
	d := &diskBudget{
		home: "/home", wave: wave,
		free:  func(context.Context) (int64, error) { return free, nil },
		spare: func() int64 { dropped := spares; free += dropped; spares = 0; return dropped },
		warn:  func(message string) { said = append(said, message) },
		stop:  func(err error) { stopped = err },
	}
	require.False(t, d.look(t.Context()))
	require.Empty(t, said)

	free = 2*stopAt + wave - 1
	require.False(t, d.look(t.Context()))
	require.False(t, d.look(t.Context()))
	require.Equal(t, []string{"/home has only 382 MB free: below 138 MB the run stops after a checkpoint. Free some space"}, said)
	require.Positive(t, spares, "spares are kept while a warning is enough")

	free = stopAt + wave - 1
	require.False(t, d.look(t.Context()))
	require.Zero(t, spares)
	require.Len(t, said, 2)
	require.Equal(t, "/home has only 243 MB free: deleted 52 MB of older checkpoints; each node keeps its newest", said[1])
	require.False(t, d.look(t.Context()), "nothing more can be spared, but there is room")
	require.Len(t, said, 2)

	free = 20 * wave
	require.False(t, d.look(t.Context()))
	free = 2*stopAt + wave - 1
	require.False(t, d.look(t.Context()))
	require.Len(t, said, 3, "said again after it had been well")

	free = stopAt - 1
	require.True(t, d.look(t.Context()))
	require.EqualError(t, stopped, "stopped because the disk is nearly full: /home has 138 MB free")
	var full *diskError
	require.True(t, errors.As(stopped, &full))
}
