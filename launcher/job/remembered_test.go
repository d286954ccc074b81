package job

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A command that used nearly all of a GPU fits there the next time.
func TestHeadroomLeavesWhatFittedAPlace(t *testing.T) {
	const gb = 1_000_000_000
	for _, c := range []struct{ peak, total, want int64 }{
		{10 * gb, 80 * gb, 11 * gb}, {75 * gb, 80 * gb, 76 * gb}, {79 * gb, 80 * gb, 79 * gb}, {0, 80 * gb, 0}, {10 * gb, 0, 10 * gb},
	} {
		require.Equal(t, c.want, withHeadroom(c.peak, c.total), c)
	}
}
