package sharedir

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/internal/powercut"
	"github.com/sapo-swarm/swarm/node/exchange"
)

func servePowerCuts() { powercut.Serve() }

// A batch shared through a folder survives any power failure of this machine. No node shares it again.
func TestPowerCutLosesNoBatch(t *testing.T) {
	fs := powercut.Mount(t)
	shared := filepath.Join(fs.Dir, "drive")
	require.NoError(t, os.Mkdir(shared, 0o755)) // the sync program's folder
	root, err := os.Open(fs.Dir)
	require.NoError(t, err)
	require.NoError(t, root.Sync())
	require.NoError(t, root.Close())
	dir := folderIn(t, shared)
	node := open(t, Options{Dir: dir, Run: testRun, Node: "a"})
	done := []powercut.Promise{{Changes: fs.Now(t)}}
	const rounds = 2 * blockRounds
	for round := range rounds {
		share(t, node, round)
		done = append(done, powercut.Promise{Changes: fs.Now(t), Value: round + 1})
	}
	require.NoError(t, node.Close())
	fs.Log(t).Try(t, powercut.Trial{At: powercut.Places(done), Random: 40, Seed: 23}, func(t *testing.T, n int, left string) {
		dir, err := Folder(filepath.Join(left, "drive"), "exp")
		require.NoError(t, err)
		promised := powercut.Promised(done, n)
		if promised == 0 {
			return
		}
		require.NoError(t, Announce(dir, testWelcome()))
		reader := open(t, Options{Dir: dir, Run: testRun, Node: "reader"})
		defer reader.Close()
		for round := range promised {
			got, err := reader.Gather(t.Context(), round, []string{"a"}, exchange.Barrier{Deadline: time.Millisecond})
			require.NoError(t, err)
			require.NotNil(t, got[0], "round %d", round)
		}
	})
}
