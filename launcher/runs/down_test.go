package runs

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/metrics/store"
)

// Down mentions a checkpoint only if it is on disk.
func TestDownTellsWhatIsOnDisk(t *testing.T) {
	for want, d := range map[string]StoppedRun{
		"e-1 ended after 1.0 s: stopped, round 20 of 40.\nEvery node has a checkpoint of round 17: the run continues at round 20.\nContinue with: swarm resume e-1\n": {
			goesOn: "swarm resume e-1", Round: 20, CheckpointRound: 17, State: store.RunStopped,
		},
		"e-1 ended after 1.0 s: stopped, round 3 of 40.\nNot every node has a checkpoint yet: the run continues from the journals, at round 3.\nContinue with: swarm resume e-1\n": {
			goesOn: "swarm resume e-1", Round: 3, State: store.RunStopped,
		},
		"e-1 ended after 1.0 s: done, round 40 of 40.\n": {Round: 40, CheckpointRound: 40, State: store.RunDone},
	} {
		d.Run, d.Outcome, d.Rounds, d.Seconds = "e-1", OutcomeStopped, 40, 1
		var b strings.Builder
		d.print(&b)
		require.Equal(t, want, b.String())
	}
}
