package best

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/node/policy"
)

// saver is the engine's part: it makes the folder.
type saver struct{}

func (saver) Save(_ context.Context, p policy.SaveParams) (policy.SaveResult, error) {
	return policy.SaveResult{Bytes: 1, SHA256: "sum", WeightHash: "hash"}, os.MkdirAll(p.Path, 0o755)
}

// chooser is a node's best weights, of questions with that name.
func chooser(dir, set string) *Keeper {
	return Open(dir, Owner{"run", "node_0", "tiny"}, Questions{set, 8, 4}, slog.New(slog.DiscardHandler))
}

// folders are the names of the folders of weights that there are.
func folders(t *testing.T, dir string) (names []string) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, Pattern))
	require.NoError(t, err)
	for _, path := range paths {
		names = append(names, filepath.Base(path))
	}
	return names
}

func TestTheBestWeightsAreKept(t *testing.T) {
	t.Parallel()
	dir, engine := t.TempDir(), saver{}
	_, err := Read(dir)
	require.ErrorIs(t, err, ErrNone)
	b := chooser(dir, "s")
	for _, c := range []struct {
		judged Judged
		best   int
	}{
		{Judged{0, 0.1, 0.3}, 0},
		{Judged{10, 0.2, 0.1}, 10}, // pass@1 comes before the reward
		{Judged{20, 0.2, 0.1}, 10}, // of equal ones the first
		{Judged{30, 0.1, 0.9}, 10},
		{Judged{40, 0.2, 0.2}, 40},
	} {
		require.False(t, b.Knows(c.judged.Round))
		require.NoError(t, b.Take(t.Context(), engine, c.judged))
		require.True(t, b.Knows(c.judged.Round))
		kept, err := Read(dir)
		require.NoError(t, err)
		require.Equal(t, []any{c.best, Folder(c.best), "s", "sum"}, []any{kept.Round, kept.Folder, kept.Set, kept.SHA256})
		require.Equal(t, []string{Folder(c.best)}, folders(t, dir), "the former ones are gone")
	}
	again := chooser(dir, "s")
	require.Equal(t, b.now, again.now)
	again.Settle(20)
	require.Len(t, again.now.All, 3)
	require.Equal(t, 40, again.now.Round, "they stay, though what came before is computed again")
	require.NoError(t, again.Take(t.Context(), engine, Judged{30, 0.1, 0.9}))
	require.Equal(t, []string{Folder(40)}, folders(t, dir))
}

// Whatever a process that was killed has left, the next one judges and keeps what is missing.
func TestBestWeightsAfterAKill(t *testing.T) {
	t.Parallel()
	dir, engine := t.TempDir(), saver{}
	require.NoError(t, chooser(dir, "s").Take(t.Context(), engine, Judged{10, 0.2, 0.2}))
	for _, left := range []string{"best-00000020", "best-00000030.tmp", "best-00000010.old"} { // and two names of earlier versions
		require.NoError(t, os.Mkdir(filepath.Join(dir, left), 0o755))
	}
	b := chooser(dir, "s")
	require.Equal(t, []string{Folder(10)}, folders(t, dir))
	require.False(t, b.Knows(20))

	other := chooser(dir, "t")
	require.False(t, other.Knows(10), "other questions judged them")
	require.Equal(t, []string{Folder(10)}, folders(t, dir), "they stay until there are others")
	require.NoError(t, other.Take(t.Context(), engine, Judged{20, 0.1, 0.1}))
	require.Equal(t, []string{Folder(20)}, folders(t, dir), "values of different questions don't compare")

	require.NoError(t, os.RemoveAll(filepath.Join(dir, Folder(20))))
	gone := chooser(dir, "t")
	require.False(t, gone.Knows(20))
	require.NoError(t, gone.Take(t.Context(), engine, Judged{30, 0, 0}))
	require.Equal(t, []string{Folder(30)}, folders(t, dir))

	for text, want := range map[string]string{
		"{": "is damaged", `{"version": 9}`: "by a newer program", `{"version": 1, "round": 30, "folder": "../../secret"}`: "names round 30 and folder",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, File), []byte(text), 0o644))
		_, err := Read(dir)
		require.ErrorContains(t, err, want)
	}
	require.Empty(t, chooser(dir, "t").now.Folder)
	require.Empty(t, folders(t, dir), "a folder that nothing names is nothing")
}

func TestJudgedIsPassAndReward(t *testing.T) {
	t.Parallel()
	j := NewJudged(event.Eval{Round: 7, Generations: 4, Questions: []event.EvalQuestion{{Correct: 1, RewardSum: 1.5}, {Correct: 3, RewardSum: 3}}})
	require.Equal(t, Judged{7, 0.5, 0.5625}, j)
}
