package sharedir

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/internal/hermetic"
)

const killedFolder = "SWARM_TEST_KILLED_FOLDER"

// TestMain lets the test binary be the process that is killed.
func TestMain(m *testing.M) {
	servePowerCuts()
	if dir := os.Getenv(killedFolder); dir != "" {
		publishUntilKilled(dir)
	}
	os.Exit(hermetic.Main(m))
}

func publishUntilKilled(dir string) {
	d, err := Open(Options{Dir: dir, Run: testRun, Node: "a"})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	for round := 0; ; round++ {
		if err := d.Publish(context.Background(), batchOf("a", round, "steady")); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println(round)
	}
}

// A process killed at any moment leaves readable every batch that it reported as shared. The next process continues,
// and each round has exactly one batch.
func TestKilledWhilePublishing(t *testing.T) {
	dir := newFolder(t)
	last := -1
	for kill := range 4 {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), killedFolder+"="+dir)
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		lines := bufio.NewScanner(out)
		for n := 0; n < 10+13*kill && lines.Scan(); n++ {
			var round int
			_, err := fmt.Sscan(lines.Text(), &round)
			require.NoError(t, err, lines.Text())
			last = max(last, round)
		}
		require.NoError(t, cmd.Process.Kill())
		_ = cmd.Wait() // killed
	}
	require.Positive(t, last)
	reader := open(t, Options{Dir: dir, Run: testRun, Node: "reader"})
	for round := range last + 1 {
		got := lookNow(t, reader, round, "a")
		require.NotNil(t, got, round)
		require.Empty(t, got.Rejected)
		names, err := os.ReadDir(filepath.Join(dir, base, blockPath(testRun, blockOf(round))))
		require.NoError(t, err)
		whole := 0
		for _, n := range names {
			if f, ok := parseRollout(n.Name()); ok && f.round == round {
				if _, err := reader.base.take(blockPath(testRun, blockOf(round)), f.entry, maxPacked); err == nil {
					whole++
				}
			}
		}
		require.Equal(t, 1, whole, round)
	}
}

// A file cut at any byte does not count as shared. The complete file does.
func TestTornFile(t *testing.T) {
	dir := newFolder(t)
	a, reader := open(t, Options{Dir: dir, Run: testRun, Node: "a"}), open(t, Options{Dir: dir, Run: testRun, Node: "reader"})
	share(t, a, 0)
	folder := filepath.Join(dir, base, blockPath(testRun, 0))
	names, err := os.ReadDir(folder)
	require.NoError(t, err)
	path := filepath.Join(folder, names[0].Name())
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	for size := range whole {
		require.NoError(t, os.WriteFile(path, whole[:size], 0o600))
		require.Nil(t, lookNow(t, reader, 0, "a"), size)
	}
	require.NoError(t, a.Publish(t.Context(), batchOf("a", 0, "0"))) // replaces the torn file
	require.Empty(t, lookNow(t, reader, 0, "a").Rejected)
}

// Two snapshots stay, unchanged content is written once, and a failed copy leaves nothing.
func TestSnapshot(t *testing.T) {
	dir := newFolder(t)
	of := func(text string) func(context.Context, string) error {
		return func(_ context.Context, path string) error { return os.WriteFile(path, []byte(text), 0o600) }
	}
	stored := func() []snapshotFile {
		found, err := snapshots(baseOf(dir), filepath.Join(runPath(testRun), snapshotPart))
		require.NoError(t, err)
		return found
	}
	for _, text := range []string{"one", "one", "two", "three", "three"} {
		require.NoError(t, Snapshot(t.Context(), of(text), dir, testRun))
	}
	require.Len(t, stored(), keepSnapshots)
	data, err := baseOf(dir).take(filepath.Join(runPath(testRun), snapshotPart), stored()[0].entry, 100)
	require.NoError(t, err)
	require.Equal(t, "three", string(data))
	broken := errors.New("broken")
	require.ErrorIs(t, Snapshot(t.Context(), func(context.Context, string) error { return broken }, dir, testRun), broken)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(broken)
	require.ErrorIs(t, Snapshot(ctx, of("four"), dir, testRun), broken)
	require.Len(t, stored(), keepSnapshots)
	require.ErrorContains(t, Snapshot(t.Context(), of("five"), filepath.Join(dir, "away"), testRun), "is missing")
}

// The arrivals file can be read after a cut at any byte.
func TestArrivalsTorn(t *testing.T) {
	a := &arrivals{marks: map[int]int64{}, nodes: map[string]*seen{}}
	for round := range 5 {
		a.add("x", round, round == 0)
		require.NoError(t, a.mark(round))
	}
	data := a.dump()
	for size := range len(data) + 1 {
		b := &arrivals{marks: map[int]int64{}, nodes: map[string]*seen{}}
		b.load(data[:size])
		require.LessOrEqual(t, len(b.marks), 5)
		if size == len(data) {
			require.Equal(t, string(data), string(b.dump()))
		}
	}
}

// A node's oldest rounds are forgotten if there are too many. Forgotten rounds are not new.
func TestArrivalsBounded(t *testing.T) {
	a := &arrivals{marks: map[int]int64{}, nodes: map[string]*seen{}}
	for round := range 2 * maxSeen {
		a.add("x", round, false)
		require.NoError(t, a.mark(round))
	}
	require.LessOrEqual(t, len(a.nodes["x"].at), maxSeen+maxSeen/4)
	require.LessOrEqual(t, len(a.marks), maxMarks+maxMarks/4)
	for round := range 2 * maxSeen {
		require.True(t, a.has("x", round))
	}
}
