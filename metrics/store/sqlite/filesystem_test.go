package sqlite

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNetworkFilesystems(t *testing.T) {
	var warned []error
	warn := func(err error) { warned = append(warned, err) }
	require.NoError(t, judged("db", 0xEF53, warn), "ext4")
	require.Empty(t, warned)
	for _, magic := range []uint32{0x58465342, 0x9123683E, 0x01021994, 0x794C7630, 0} {
		require.NoError(t, judged("db", magic, warn))
		require.Empty(t, warned, "%#x is local, or nothing is known", magic)
	}
	for _, magic := range []uint32{0x6969, 0xFF534D42, 0xFE534D42, 0x517B, 0x00C36400, 0x0BD00BD0, 0x5346414F,
		0x47504653, 0x19830326, 0xAAD7AAEA, 0x20030528} {
		var e *Error
		require.ErrorAs(t, judged("db", magic, warn), &e)
		require.NotEmpty(t, e.Remedy())
	}
	require.NoError(t, judged("db", 0x65735546, warn), "FUSE")
	require.Len(t, warned, 1)
	require.NoError(t, judged("db", 0x12345678, warn))
	require.Len(t, warned, 2)
	require.ErrorContains(t, warned[1], "on a file system that swarm does not know (0x12345678)")
}
