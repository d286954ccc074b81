package journal

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/internal/files"
	"github.com/sapo-swarm/swarm/internal/powercut"
)

func TestMain(m *testing.M) {
	powercut.Serve()
	os.Exit(m.Run())
}

// A logged training set survives any power failure, even after a failed sync. The journal can always continue.
func TestPowerCutLosesNoTrainingSet(t *testing.T) {
	fs := powercut.Mount(t)
	node := filepath.Join(fs.Dir, "runs", "run-1", "node_0")
	require.NoError(t, files.MakeFolder(node, 0o755))
	j := resumed(t, node, 0)
	const rounds = 24
	logged := []powercut.Promise{{Changes: fs.Now(t)}}
	for round := range rounds {
		if round%5 == 0 {
			require.NoError(t, j.Rotate(round))
		}
		require.NoError(t, j.Generated(round, generated(round, 0)))
		if round == 7 || round == 15 { // in the middle and at the beginning of a segment
			fs.FailSyncs(t, 1)
			require.Error(t, j.Trained(round, trained(round, 0)))
		}
		require.NoError(t, j.Trained(round, trained(round, 0)))
		logged = append(logged, powercut.Promise{Changes: fs.Now(t), Value: round + 1})
		require.NoError(t, j.Done(round, done(round, 0)))
		if round == 18 { // a new process
			require.NoError(t, j.Close())
			j = resumed(t, node, round+1)
		}
	}
	require.NoError(t, j.Close())
	fs.Log(t).Try(t, powercut.Trial{At: powercut.Places(logged), Random: 150, Seed: 23}, func(t *testing.T, n int, dir string) {
		promised := powercut.Promised(logged, n)
		node := filepath.Join(dir, "runs", "run-1", "node_0")
		require.NoError(t, files.MakeFolder(node, 0o755))
		list, err := read(node, 0)
		if err != nil {
			require.ErrorIs(t, err, ErrDamaged)
		}
		require.GreaterOrEqual(t, len(list), promised)
		for i, r := range list {
			require.True(t, subset(r, whole(i, 0)), "%+v", r)
			require.True(t, i >= promised || r.Trained != nil, "round %d", i)
		}
		next := len(list)
		if next > 0 && list[next-1].Trained == nil {
			next--
		}
		j := resumed(t, node, next)
		write(t, j, next, 1)
		require.NoError(t, j.Close())
		list, err = read(node, 0)
		require.NoError(t, err)
		require.Len(t, list, next+1)
	})
}
