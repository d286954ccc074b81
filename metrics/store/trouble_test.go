package store

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// warnings collects the warnings of a store.
type warnings struct {
	mu   sync.Mutex
	errs []error
}

func (w *warnings) add(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.errs = append(w.errs, err)
}

func (w *warnings) all() []error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]error(nil), w.errs...)
}

func TestALockedDatabaseIsWaitedFor(t *testing.T) {
	var warned warnings
	s := startedStore(t, Options{BusyTimeout: time.Millisecond, RetryDelay: time.Millisecond, SeenInterval: time.Millisecond, Warn: warned.add})
	other := openStore(t, s.Path(), Options{})
	holder, err := other.db.Begin() // immediate: blocks other writers
	require.NoError(t, err)
	const rounds = 300
	for i := range rounds {
		require.NoError(t, s.Record(t.Context(), aRound("node_0", i, float64(200+i), 0.5)))
	}
	require.Eventually(t, func() bool { return s.Err() != nil }, time.Minute, time.Millisecond)
	require.ErrorContains(t, s.Err(), "locked by another program")
	select {
	case <-s.Failed():
		t.Fatal("it gave up")
	default:
	}
	require.Zero(t, snapshot(t, s, testRun).Nodes[0].RoundsDone)
	require.NoError(t, holder.Rollback())
	require.NoError(t, s.Flush(t.Context()))
	require.NoError(t, s.Err())
	require.Equal(t, rounds, snapshot(t, s, testRun).Nodes[0].RoundsDone)
	requireIntact(t, s)
	// The other store's last checkpoint may lock once more. Each problem is reported once, with its recovery.
	got := warned.all()
	require.NotEmpty(t, got)
	require.Zero(t, len(got)%2, got)
	for i, err := range got {
		var recovered *Recovered
		require.Equal(t, i%2 == 1, asRecovered(err, &recovered), err)
	}
}

func asRecovered(err error, into **Recovered) bool {
	r, ok := err.(*Recovered)
	*into = r
	return ok
}

func TestAMovedDatabaseEndsTheWriter(t *testing.T) {
	for name, move := range map[string]func(path string) error{
		"deleted": os.Remove,
		"renamed": func(path string) error { return os.Rename(path, path+".old") },
		"replaced": func(path string) error {
			if err := os.WriteFile(path+".new", nil, 0o600); err != nil {
				return err
			}
			return os.Rename(path+".new", path)
		},
	} {
		t.Run(name, func(t *testing.T) {
			var warned warnings
			s := startedStore(t, Options{SeenInterval: time.Millisecond, Warn: warned.add})
			record(t, s, aRound("node_0", 0, 200, 0.5))
			require.NoError(t, move(s.Path()))
			select {
			case <-s.Failed():
			case <-time.After(10 * time.Second):
				t.Fatal("nobody noticed")
			}
			require.ErrorContains(t, s.Err(), "moved or deleted")
			require.Error(t, s.Record(t.Context(), aRound("node_0", 1, 201, 0.5)))
			require.Error(t, s.Flush(t.Context()))
			require.Len(t, warned.all(), 1)
			require.Error(t, s.Close())
		})
	}
}

// TestTheLogStaysShortUnderReaders writes while readers poll, so that a reader is active at any time.
func TestTheLogStaysShortUnderReaders(t *testing.T) {
	const limit = 256 << 10
	s := startedStore(t, Options{MaxDelay: time.Millisecond, MaxBatch: 20, SeenInterval: 50 * time.Millisecond, WALLimit: limit})
	r, err := OpenReader(t.Context(), s.Path())
	require.NoError(t, err)
	defer r.Close()
	ctx, cancel := context.WithCancel(t.Context())
	var readers sync.WaitGroup
	defer readers.Wait()
	defer cancel()
	for range 3 {
		readers.Go(func() {
			for ctx.Err() == nil {
				if _, err := r.Snapshot(ctx, testRun); err != nil && ctx.Err() == nil {
					t.Error(err)
				}
			}
		})
	}
	var largest, written int64
	const rounds = 3000
	for i := range rounds {
		require.NoError(t, s.Record(t.Context(), aRound("node_0", i, float64(200+i), 0.5)))
		if i%50 != 0 {
			continue
		}
		require.NoError(t, s.Flush(t.Context()))
		if info, err := os.Stat(s.Path() + "-wal"); err == nil {
			largest = max(largest, info.Size())
		}
	}
	info, err := os.Stat(s.Path())
	require.NoError(t, err)
	written = info.Size()
	t.Logf("log at most %d kB, database %d kB", largest>>10, written>>10)
	require.Less(t, largest, int64(12*limit))
	require.NoError(t, s.Flush(t.Context()))
	require.Equal(t, rounds, snapshot(t, s, testRun).Nodes[0].RoundsDone)
}

func TestKilledAgainAndAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "swarm.db")
	const deaths = 6
	for i := range deaths {
		cmd := child(t, "resuming", path)
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		// The child prints a byte after each step. The moment of the kill differs each time.
		buf := make([]byte, 1)
		for range 20 + 37*i {
			_, err := out.Read(buf)
			require.NoError(t, err)
		}
		require.NoError(t, cmd.Process.Kill())
		require.Error(t, cmd.Wait())
	}
	s := openStore(t, path, Options{})
	requireIntact(t, s)
	require.NoError(t, s.StartRun(t.Context(), aRun()))
	got := attempts(t, s)
	require.Len(t, got, deaths+1)
	for _, a := range got[:deaths] {
		require.Equal(t, AttemptCrashed, a.State)
		require.GreaterOrEqual(t, a.Ended, a.Started)
	}
	r, err := OpenReader(t.Context(), path)
	require.NoError(t, err)
	defer r.Close()
	recorded, err := r.Recorded(t.Context(), testRun)
	require.NoError(t, err)
	node := snapshot(t, s, testRun).Nodes[0]
	require.Equal(t, node.RoundsDone, recorded["node_0"], "no gap")
	require.Equal(t, node.LastRound+1, recorded["node_0"])
	require.Positive(t, recorded["node_0"])
}

// childResuming continues where the database ends: it repeats the last rounds, adds new ones, and prints a byte after
// each.
func childResuming(path string) int {
	ctx := context.Background()
	s, err := Open(ctx, path, Options{MaxBatch: 7, MaxDelay: time.Millisecond, SeenInterval: time.Millisecond})
	if err == nil {
		err = s.StartRun(ctx, aRun())
	}
	recorded := map[string]int{}
	if err == nil {
		var r *Reader
		if r, err = OpenReader(ctx, path); err == nil {
			recorded, err = r.Recorded(ctx, testRun)
		}
	}
	next := recorded["node_0"]
	for i := max(0, next-5); err == nil; i++ {
		e := aRound("node_0", i, float64(200+i), 0.5)
		e.Replayed = i < next+5
		err = s.Record(ctx, e)
		fmt.Print(".")
		if err == nil && i%10 == 0 {
			err = s.Flush(ctx)
		}
	}
	fmt.Fprintln(os.Stderr, err)
	return 1
}

func TestNewerSchemaIsOneLine(t *testing.T) {
	s := startedStore(t, Options{})
	_, err := s.db.Exec("PRAGMA user_version = 99")
	require.NoError(t, err)
	require.NoError(t, s.Close())
	_, err = Open(t.Context(), s.Path(), Options{})
	_, readErr := OpenReader(t.Context(), s.Path())
	for _, err := range []error{err, readErr} {
		var e *Error
		require.ErrorAs(t, err, &e)
		require.Contains(t, e.Error(), "written by a newer swarm (schema 99, this one knows 14)")
		require.NotContains(t, e.Error(), "\n")
		require.True(t, strings.HasPrefix(e.Remedy(), "update swarm"))
	}
}
