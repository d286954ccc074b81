package store

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/internal/hermetic"
)

// TestMain also implements the child processes that the tests below kill or starve.
func TestMain(m *testing.M) {
	servePowerCuts()
	switch path := os.Getenv("STORE_TEST_DB"); os.Getenv("STORE_TEST_CHILD") {
	case "":
		os.Exit(hermetic.Main(m))
	case "forever":
		os.Exit(childForever(path))
	case "resuming":
		os.Exit(childResuming(path))
	case "delivering":
		os.Exit(childDelivering(path))
	case "limited":
		os.Exit(childLimited(path))
	}
}

func child(t *testing.T, what, path string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "STORE_TEST_CHILD="+what, "STORE_TEST_DB="+path)
	cmd.Stderr = os.Stderr
	return cmd
}

// childForever records rounds and prints the number of acknowledged ones.
func childForever(path string) int {
	ctx := context.Background()
	s, err := Open(ctx, path, Options{MaxBatch: 50, MaxDelay: time.Millisecond})
	if err == nil {
		err = s.StartRun(ctx, aRun())
	}
	for i := 0; err == nil; i++ {
		err = s.Record(ctx, aRound("node_0", i, float64(200+i), 0.5))
		if err == nil && i%20 == 19 {
			err = s.Flush(ctx)
			fmt.Println(i + 1)
		}
	}
	fmt.Fprintln(os.Stderr, err)
	return 1
}

func TestKilledWriterLosesNothingFlushed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "swarm.db")
	cmd := child(t, "forever", path)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	lines := bufio.NewScanner(out)
	acknowledged := 0
	for acknowledged < 200 && lines.Scan() {
		acknowledged, err = strconv.Atoi(lines.Text())
		require.NoError(t, err)
	}
	require.NoError(t, cmd.Process.Kill())
	for lines.Scan() {
		acknowledged, err = strconv.Atoi(lines.Text())
		require.NoError(t, err)
	}
	require.Error(t, cmd.Wait())
	require.GreaterOrEqual(t, acknowledged, 200)

	s := openStore(t, path, Options{})
	requireIntact(t, s)
	require.GreaterOrEqual(t, snapshot(t, s, testRun).Nodes[0].RoundsDone, acknowledged)
	record(t, s, aRound("node_0", 0, 200, 0.5), aRound("node_1", 0, 200, 0.5))
	requireSums(t, s)
}

func requireIntact(t *testing.T, s *Store) {
	t.Helper()
	var verdict string
	require.NoError(t, s.db.QueryRow("PRAGMA integrity_check").Scan(&verdict))
	require.Equal(t, "ok", verdict)
	requireSums(t, s)
}

// childLimited writes until the file size limit is reached, and prints the results.
func childLimited(path string) int {
	signal.Ignore(syscall.SIGXFSZ)
	ctx := context.Background()
	s, err := Open(ctx, path, Options{RetryDelay: time.Millisecond, RetryFor: 20 * time.Millisecond})
	if err == nil {
		err = s.StartRun(ctx, aRun())
	}
	if err == nil {
		err = s.Record(ctx, aRound("node_0", 0, 200, 0.5))
	}
	if err == nil {
		err = s.Flush(ctx)
	}
	if err == nil {
		limit := syscall.Rlimit{Cur: 300 << 10, Max: 300 << 10}
		err = syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	for i := 1; err == nil; i++ {
		err = s.Record(ctx, aRound("node_0", i, float64(200+i), 0.5))
	}
	<-s.Failed()
	fmt.Println(s.Err())
	fmt.Println(s.Close() != nil)
	return 0
}

func TestFileThatCannotGrow(t *testing.T) {
	path := filepath.Join(t.TempDir(), "swarm.db")
	out, err := child(t, "limited", path).Output()
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	require.Len(t, lines, 2)
	require.Contains(t, lines[0], "disk error")
	require.Contains(t, lines[0], "were not recorded")
	require.Equal(t, "true", lines[1], "Close reports it too")
	s := openStore(t, path, Options{})
	requireIntact(t, s)
	require.Positive(t, snapshot(t, s, testRun).Nodes[0].RoundsDone)
}

func TestFullDiskIsRetriedWithoutLoss(t *testing.T) {
	var mu sync.Mutex
	var warned []error
	full := make(chan struct{})
	s := startedStore(t, Options{RetryDelay: time.Millisecond, RetryFor: time.Minute, Warn: func(err error) {
		mu.Lock()
		defer mu.Unlock()
		if warned = append(warned, err); len(warned) == 1 {
			close(full)
		}
	}})
	limit := func(pages int) {
		_, err := s.db.Exec(fmt.Sprintf("PRAGMA max_page_count = %d", pages))
		require.NoError(t, err)
	}
	limit(1) // SQLite substitutes the current size
	const rounds = 500
	for i := range rounds {
		require.NoError(t, s.Record(t.Context(), aRound("node_0", i, float64(200+i), 0.5)))
	}
	select {
	case <-full:
	case <-time.After(20 * time.Second):
		t.Fatal("the disk never was full")
	}
	require.ErrorContains(t, s.Err(), "disk full")
	require.NotContains(t, s.Err().Error(), "\n")
	limit(1 << 30)
	require.NoError(t, s.Flush(t.Context()))
	require.NoError(t, s.Err())
	require.Equal(t, rounds, snapshot(t, s, testRun).Nodes[0].RoundsDone)
	requireIntact(t, s)
	mu.Lock()
	defer mu.Unlock()
	require.Len(t, warned, 2, "told once, and once that it is well again")
	require.ErrorContains(t, warned[0], "events wait for at most")
	var recovered *Recovered
	require.ErrorAs(t, warned[1], &recovered)
}

func TestCloseGivesUpOnAFullDiskSoon(t *testing.T) {
	s := startedStore(t, Options{RetryDelay: time.Hour, RetryFor: time.Hour, Queue: 10, MaxBatch: 10})
	_, err := s.db.Exec("PRAGMA max_page_count = 1")
	require.NoError(t, err)
	blocked := make(chan error, 1)
	go func() { // the queue fills up and Record blocks
		var err error
		for i := 0; err == nil; i++ {
			err = s.Record(context.Background(), aRound("node_0", i, float64(200+i), 0.5))
		}
		blocked <- err
	}()
	require.Eventually(t, func() bool { return s.Err() != nil && len(s.queue) == cap(s.queue) }, time.Minute, time.Millisecond)
	require.ErrorContains(t, s.Close(), "were not recorded")
	require.Error(t, <-blocked)
}
