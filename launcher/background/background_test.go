package background

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWhatGoesOnInTheBackgroundIsToldWithItsCommands(t *testing.T) {
	for want, a := range map[string]Announcement{
		"e-1 runs in the background, process 7.\nwatch  swarm attach e-1\nlogs   swarm logs -f e-1\nstop   swarm down e-1\npage   http://x/\njoin   swarm join y\n": {
			Run: "e-1", PID: 7, Dashboard: "http://x/", Join: "swarm join y",
		},
		"j-1 runs in the background, process 8.\nwatch  swarm status j-1\nlogs   swarm logs -f j-1\nstop   swarm down j-1\n": {Job: "j-1", PID: 8},
	} {
		var b strings.Builder
		require.NoError(t, a.Write(&b, "swarm"))
		require.Equal(t, want, b.String())
	}
}
