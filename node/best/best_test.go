package best

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/node/policy"
)

// saver is the engine's part: it makes the folder and its two files.
type saver struct{}

func (saver) Save(_ context.Context, p policy.SaveParams) (policy.SaveResult, error) {
	err := os.MkdirAll(p.Path, 0o755)
	for _, name := range []string{"config.json", "model.safetensors"} {
		err = errors.Join(err, os.WriteFile(filepath.Join(p.Path, name), nil, 0o644))
	}
	return policy.SaveResult{Bytes: 1, SHA256: "sum", WeightHash: "hash"}, err
}

// open is a node's best weights, of questions with that name, and the warnings.
func open(t *testing.T, dir, set string) (b *Keeper, warnings []string) {
	t.Helper()
	b, err := Open(dir, Owner{"run", "node_0", "tiny"}, Questions{set, 8, 4}, slog.New(slog.DiscardHandler), func(message string) {
		warnings = append(warnings, message)
	})
	require.NoError(t, err)
	return b, warnings
}

// chooser is open where nothing is to be warned of.
func chooser(t *testing.T, dir, set string) *Keeper {
	t.Helper()
	b, warnings := open(t, dir, set)
	require.Empty(t, warnings)
	return b
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
	b := chooser(t, dir, "s")
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
	again := chooser(t, dir, "s")
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
	require.NoError(t, chooser(t, dir, "s").Take(t.Context(), engine, Judged{10, 0.2, 0.2}))
	for _, left := range []string{"best-00000020", "best-00000030.tmp", "best-00000010.old"} { // saved, and two names of earlier versions
		require.NoError(t, os.Mkdir(filepath.Join(dir, left), 0o755))
	}
	b := chooser(t, dir, "s")
	require.Equal(t, []string{Folder(10)}, folders(t, dir))
	require.False(t, b.Knows(20))

	require.NoError(t, os.RemoveAll(filepath.Join(dir, Folder(10))))
	gone := chooser(t, dir, "s")
	require.False(t, gone.Knows(10))
	require.NoError(t, gone.Take(t.Context(), engine, Judged{30, 0, 0}))
	require.Equal(t, []string{Folder(30)}, folders(t, dir))

	require.NoError(t, os.Remove(filepath.Join(dir, File)))
	require.Empty(t, chooser(t, dir, "s").now.Folder)
	require.Empty(t, folders(t, dir), "a folder that nothing names is nothing")
}

// Values of different questions don't compare: worse weights may follow the best ones, and do not delete them.
func TestWeightsOfTheFormerQuestionsAreKept(t *testing.T) {
	t.Parallel()
	dir, engine := t.TempDir(), saver{}
	require.NoError(t, chooser(t, dir, "s").Take(t.Context(), engine, Judged{10, 0.9, 0.9}))
	first, err := Read(dir)
	require.NoError(t, err)

	b, warnings := open(t, dir, "t")
	require.Len(t, warnings, 1)
	require.Contains(t, warnings[0], "the validation questions have changed: ")
	require.Contains(t, warnings[0], "The former ones stay in best-00000010 until")
	require.False(t, b.Knows(10), "other questions judged them")
	kept, err := Read(dir)
	require.NoError(t, err)
	require.Equal(t, first, kept, "they count until there are others")
	for _, judged := range []Judged{{20, 0.1, 0.1}, {30, 0.2, 0.1}} {
		require.NoError(t, b.Take(t.Context(), engine, judged))
		require.Equal(t, []string{Folder(10), Folder(judged.Round)}, folders(t, dir))
	}
	kept, err = Read(dir)
	require.NoError(t, err)
	require.Equal(t, first, *kept.Former)
	require.Equal(t, b.now, chooser(t, dir, "t").now)

	back := chooser(t, dir, "s")
	require.True(t, back.Knows(10))
	require.NoError(t, back.Take(t.Context(), engine, Judged{40, 0.3, 0.3}))
	kept, err = Read(dir)
	require.NoError(t, err)
	require.Equal(t, []any{10, first.SHA256, 30}, []any{kept.Round, kept.SHA256, kept.Former.Round}, "the questions that chose them are back")
	require.Equal(t, []string{Folder(10), Folder(30)}, folders(t, dir))

	third, warnings := open(t, dir, "u")
	require.Len(t, warnings, 1)
	require.Contains(t, warnings[0], "stay in best-00000010 until")
	require.Equal(t, []string{Folder(10), Folder(30)}, folders(t, dir))
	require.NoError(t, third.Take(t.Context(), engine, Judged{50, 0, 0}))
	require.Equal(t, []string{Folder(10), Folder(50)}, folders(t, dir), "one folder of former weights is kept")
}

// A best.json that cannot be used costs no weights.
func TestAnUnusableManifestDeletesNothing(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"{": "is damaged", `{"version": 9}`: ErrNewer.Error() + ": its version is 9, this program reads 1", `{"version": 1, "round": 30, "folder": "../../secret"}`: "names round 30 and folder",
		`{"version": 1, "round": 30, "folder": "best-00000030", "former": {"round": 2, "folder": "../x"}}`: "names round 2 and folder",
		"": "too many levels of symbolic links", // a loop: reading it fails
	} {
		dir, engine := t.TempDir(), saver{}
		require.NoError(t, chooser(t, dir, "s").Take(t.Context(), engine, Judged{10, 0.9, 0.9}))
		path := filepath.Join(dir, File)
		require.NoError(t, os.Rename(path, path+".moved"))
		if text != "" {
			require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
		} else {
			require.NoError(t, os.Symlink(File, path))
		}
		_, err := Read(dir)
		require.ErrorContains(t, err, want)
		if errors.Is(err, errDamaged) {
			b, warnings := open(t, dir, "s")
			require.Len(t, warnings, 1)
			require.Contains(t, warnings[0], "The former ones stay in best-00000010 until")
			require.NoError(t, b.Take(t.Context(), engine, Judged{20, 0, 0}))
			require.Equal(t, []string{Folder(10), Folder(20)}, folders(t, dir))
			continue
		}
		_, err = Open(dir, Owner{}, Questions{}, slog.New(slog.DiscardHandler), func(string) {})
		require.ErrorContains(t, err, want)
		require.Equal(t, []string{Folder(10)}, folders(t, dir))
		require.NoError(t, os.Rename(path+".moved", path))
		require.True(t, chooser(t, dir, "s").Knows(10))
	}
}

// After damage it is unknown which weights were the best, so all complete ones stay until the questions change.
func TestDamageKeepsAllWeights(t *testing.T) {
	t.Parallel()
	dir, engine := t.TempDir(), saver{}
	require.NoError(t, chooser(t, dir, "s").Take(t.Context(), engine, Judged{30, 0.9, 0.9}))
	b, _ := open(t, dir, "t")
	require.NoError(t, b.Take(t.Context(), engine, Judged{10, 0.9, 0.9}))
	for round, file := range map[int]string{50: "config.json", 60: "model.safetensors"} {
		require.NoError(t, os.Mkdir(filepath.Join(dir, Folder(round)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, Folder(round), file), nil, 0o644))
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, File), []byte("{"), 0o644))

	loop := filepath.Join(dir, Folder(60), "config.json")
	require.NoError(t, os.Symlink("config.json", loop))
	_, err := Open(dir, Owner{}, Questions{}, slog.New(slog.DiscardHandler), func(string) {})
	require.ErrorIs(t, err, syscall.ELOOP, "a failed read is no missing file")
	require.NoError(t, os.Remove(loop))

	b, warnings := open(t, dir, "t")
	require.Len(t, warnings, 1)
	require.Contains(t, warnings[0], "The former ones stay in best-00000030, best-00000010 until")
	require.Equal(t, []string{Folder(10), Folder(30), Folder(50), Folder(60)}, folders(t, dir))
	require.NoError(t, b.Take(t.Context(), engine, Judged{40, 0, 0}))
	require.Equal(t, []string{Folder(10), Folder(30), Folder(40)}, folders(t, dir), "those of killed saves are gone")

	require.Equal(t, b.now, chooser(t, dir, "t").now)
	require.NoError(t, chooser(t, dir, "t").Take(t.Context(), engine, Judged{70, 0.1, 0.1}))
	require.Equal(t, []string{Folder(10), Folder(30), Folder(70)}, folders(t, dir))
	b, _ = open(t, dir, "u")
	require.NoError(t, b.Take(t.Context(), engine, Judged{80, 0, 0}))
	require.Equal(t, []string{Folder(70), Folder(80)}, folders(t, dir))
}

func TestJudgedIsPassAndReward(t *testing.T) {
	t.Parallel()
	j := NewJudged(event.Eval{Round: 7, Generations: 4, Questions: []event.EvalQuestion{{Correct: 1, RewardSum: 1.5}, {Correct: 3, RewardSum: 3}}})
	require.Equal(t, Judged{7, 0.5, 0.5625}, j)
}
