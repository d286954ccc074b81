package queue

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// usePath is the folder in which workers record their bytes in use.
func usePath(dir string) string { return filepath.Join(dir, "in use") }

// work does one job of two attempts. It returns an error if the recorded bytes of all workers exceed the card's
// memory. It checks after recording its own bytes, so if two workers have the same bytes, the later one notices.
func work(q *Queue, dir string, bytes int64) error {
	t, err := q.Enter(fmt.Sprint("worker ", os.Getpid()), Need{Bytes: bytes})
	if err != nil {
		return err
	}
	defer t.Leave()
	look := func(context.Context) ([]Device, error) { return card(), nil }
	for range 2 {
		if _, err := t.Wait(context.Background(), wakePoll, time.Minute, look, nil); err != nil {
			return err
		}
		shown := filepath.Join(usePath(dir), fmt.Sprintf("%d %d", bytes, os.Getpid()))
		if err := os.WriteFile(shown, nil, 0o644); err != nil {
			return err
		}
		if sum, err := inUse(dir); err != nil || sum > 10 {
			return fmt.Errorf("%d of 10 bytes in use: %w", sum, err)
		}
		time.Sleep(time.Duration(rand.IntN(10)) * time.Millisecond)
		if err := os.Remove(shown); err != nil {
			return err
		}
		if err := t.Release(); err != nil {
			return err
		}
	}
	return nil
}

// inUse returns the recorded bytes of living workers.
func inUse(dir string) (int64, error) {
	files, err := os.ReadDir(usePath(dir))
	sum := int64(0)
	for _, f := range files {
		bytes, pid, _ := strings.Cut(f.Name(), " ")
		n, _ := strconv.ParseInt(bytes, 10, 64)
		id, _ := strconv.Atoi(pid)
		if syscall.Kill(id, 0) == nil && !zombie(id) {
			sum += n
		}
	}
	return sum, err
}

func zombie(pid int) bool {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || strings.Contains(string(data), ") Z ")
}

// Workers that are killed at random moments never block the others, and no byte is granted twice.
func TestKilledOwnersAreSweptAndNothingIsHadTwice(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(usePath(dir), 0o755))
	var survivors, victims []*process
	for range 3 {
		survivors = append(survivors, start(t, "worker", dir))
	}
	for range 12 {
		victims = append(victims, start(t, "worker", dir))
		time.Sleep(time.Duration(20+rand.IntN(60)) * time.Millisecond)
		if p := victims[rand.IntN(len(victims))]; p.ProcessState == nil {
			p.Process.Kill()
			p.Wait()
		}
	}
	for _, p := range victims {
		if p.ProcessState == nil {
			p.Process.Kill()
			p.Wait()
		}
	}
	for _, p := range survivors {
		require.NoError(t, p.Wait(), "a worker that nobody killed failed")
	}
	q := open(t, dir)
	list, err := q.List()
	require.NoError(t, err)
	require.Empty(t, list)
	last := enter(t, q, "last", Need{Bytes: 10})
	require.True(t, granted(t, last, card()), "something is still claimed")
	require.NoError(t, last.Leave())
	left, err := filepath.Glob(filepath.Join(dir, "0*"))
	require.NoError(t, err)
	require.Empty(t, left, "files of tickets that are gone")
}

func TestAKilledOwnersRoomIsFree(t *testing.T) {
	dir := t.TempDir()
	p := start(t, "holder", dir)
	require.Equal(t, "true", p.line(t))
	next := enter(t, open(t, dir), "next", Need{Bytes: 6})
	require.False(t, granted(t, next, card()))
	require.NoError(t, p.Process.Kill())
	eventually(t, "the device isn't free", func() bool { return granted(t, next, card()) })
}

func TestARoomStaysClaimedWhileAProcessOfItsDeadOwnerRuns(t *testing.T) {
	dir := t.TempDir()
	training := exec.Command("sleep", "1000")
	require.NoError(t, training.Start())
	t.Cleanup(func() { training.Process.Kill(); training.Wait() })
	p := start(t, "holder", dir, strconv.Itoa(training.Process.Pid))
	require.Equal(t, "true", p.line(t))
	require.NoError(t, p.Process.Kill())
	p.Wait()

	q := open(t, dir)
	next := enter(t, q, "next", Need{Bytes: 6})
	require.False(t, granted(t, next, card()), "the training still has its memory")
	list, err := q.List()
	require.NoError(t, err)
	require.Len(t, list, 2)
	require.True(t, list[0].Orphaned)

	require.NoError(t, training.Process.Kill())
	training.Wait()
	require.True(t, granted(t, next, card()))
}

func TestAStoppedOwnerKeepsWhatItHas(t *testing.T) {
	dir := t.TempDir()
	p := start(t, "holder", dir)
	require.Equal(t, "true", p.line(t))
	require.NoError(t, p.Process.Signal(syscall.SIGSTOP))
	next := enter(t, open(t, dir), "next", Need{Bytes: 6})
	require.False(t, granted(t, next, card()))
}

// Workers that enter at the same moment get different numbers.
func TestNumbersAreUnique(t *testing.T) {
	dir := t.TempDir()
	numbers := make(chan uint64, 64)
	var group sync.WaitGroup
	for range 8 {
		q := open(t, dir) // like another process
		group.Go(func() {
			for range 8 {
				ticket, err := q.Enter("job", Need{})
				if err != nil {
					t.Error(err)
					return
				}
				numbers <- ticket.Number()
				if ticket.Number()%2 == 0 {
					ticket.Leave()
				}
			}
		})
	}
	group.Wait()
	close(numbers)
	seen := map[uint64]bool{}
	for n := range numbers {
		require.False(t, seen[n], "number %d twice", n)
		seen[n] = true
	}
	require.Len(t, seen, 64)
}
