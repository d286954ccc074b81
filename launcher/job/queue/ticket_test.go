package queue

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/sapo-swarm/swarm/internal/hermetic"
)

func TestATicketsLife(t *testing.T) {
	q := open(t, filepath.Join(t.TempDir(), "home", "queue"))
	list, err := q.List()
	require.NoError(t, err)
	require.Empty(t, list)

	first, second := enter(t, q, "first", Need{Bytes: 6}), enter(t, q, "second", Need{Bytes: 6})
	require.False(t, granted(t, second, card()), "the first has not come yet, but it is its turn")
	require.True(t, granted(t, first, card()))
	require.True(t, granted(t, first, card()), "again")
	require.False(t, granted(t, second, card()))

	list, err = q.List()
	require.NoError(t, err)
	require.Len(t, list, 2)
	require.Equal(t, "first", list[0].Name)
	require.Equal(t, &Claim{GPU: "GPU-0", Name: "Test", Bytes: 6}, list[0].Claim)
	require.Equal(t, os.Getpid(), list[1].Owner.PID)
	require.Nil(t, list[1].Claim)

	require.NoError(t, first.Adjust(4, []int{os.Getpid(), os.Getpid(), 1 << 30}))
	require.True(t, granted(t, second, card()), "the first uses less than it claimed")
	require.NoError(t, second.Release())
	require.NoError(t, first.Adjust(5, nil))
	require.False(t, granted(t, second, card()))
	require.NoError(t, second.Change(Need{Bytes: 5}))
	require.True(t, granted(t, second, card()))

	require.NoError(t, first.Release())
	third := enter(t, q, "third", Need{Bytes: 5})
	require.False(t, granted(t, third, card()), "the first is still in line, with 6")
	require.NoError(t, second.Leave())
	require.True(t, granted(t, first, card()))
	require.NoError(t, first.Leave())
	require.NoError(t, first.Leave(), "again")
	require.True(t, granted(t, third, card()))
	_, _, err = first.Try(card())
	require.ErrorIs(t, err, ErrLeft)
	require.NoError(t, (*Ticket)(nil).Leave())
}

func TestBadNeedsAreRefused(t *testing.T) {
	q := open(t, t.TempDir())
	for _, need := range []Need{{Bytes: -1}, {MinFree: -1}, {Bytes: bytesLimit + 1}} {
		_, err := q.Enter("job", need)
		require.ErrorContains(t, err, "allowed")
	}
	ticket := enter(t, q, strings.Repeat("ö", nameLimit)+"\xff", Need{Bytes: 1})
	require.Equal(t, strings.Repeat("ö", nameLimit/2), ticket.entry.Name)
	require.True(t, granted(t, ticket, card()))
	require.Error(t, ticket.Adjust(-1, nil))
	require.Error(t, ticket.Change(Need{Bytes: -1}))
}

// Files of other origin in the folder are set aside or left alone.
func TestDamagedFilesAreSetAside(t *testing.T) {
	dir := t.TempDir()
	var warnings bytes.Buffer
	q := open(t, dir)
	q.Log = slog.New(slog.NewTextHandler(&warnings, nil))
	first := enter(t, q, "first", Need{Bytes: 6})
	require.True(t, granted(t, first, card()))
	state, err := os.ReadFile(q.path(first.Number(), stateExt))
	require.NoError(t, err)

	bad := map[uint64][]byte{
		20: nil, 21: []byte("{"), 22: state[:len(state)/2], 23: bytes.Repeat([]byte("x"), entryLimit+1), 24: state, // of another number
		25: []byte(`{"number":25,"owner":{"pid":1,"boot_id":"x"},"claim":{"gpu":"GPU-0","bytes":-5}}`),
	}
	for number, data := range bad {
		require.NoError(t, os.WriteFile(q.path(number, stateExt), data, 0o644))
	}
	require.NoError(t, os.Mkdir(q.path(26, stateExt), 0o755))
	require.NoError(t, os.Symlink("/etc/passwd", q.path(27, stateExt)))
	require.NoError(t, unix.Mkfifo(q.path(28, stateExt), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "notes.json"), []byte("mine"), 0o644))
	require.NoError(t, os.WriteFile(q.path(10, aliveExt), nil, 0o644))
	require.NoError(t, os.WriteFile(q.path(11, writingExt), []byte("{"), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(dir, lockName), []byte("garbage"), 0o644))

	second := enter(t, q, "second", Need{Bytes: 4})
	require.Greater(t, second.Number(), uint64(28), "numbers go on from the names of the files")
	require.True(t, granted(t, second, card()))
	for number := uint64(20); number <= 28; number++ {
		require.NoFileExists(t, q.path(number, stateExt))
		_, err := os.Lstat(q.path(number, stateExt+damagedExt))
		require.NoError(t, err)
	}
	require.NoFileExists(t, q.path(10, aliveExt))
	require.NoFileExists(t, q.path(11, writingExt))
	require.FileExists(t, filepath.Join(dir, "notes.json"))
	require.Equal(t, 9, strings.Count(warnings.String(), "level=WARN"), warnings.String())
}

// If a ticket's own files are damaged or removed, its next change repairs them.
func TestATicketMendsItsFiles(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "queue")
	q := open(t, dir)
	first, second := enter(t, q, "first", Need{Bytes: 6}), enter(t, q, "second", Need{Bytes: 6})
	require.True(t, granted(t, first, card()))
	require.NoError(t, os.WriteFile(q.path(first.Number(), stateExt), []byte("{"), 0o644))
	require.NoError(t, first.Adjust(7, nil))
	require.False(t, granted(t, second, card()))

	require.NoError(t, os.RemoveAll(dir))
	third := enter(t, q, "third", Need{})
	require.Greater(t, third.Number(), second.Number(), "no number is given twice")
	require.NoError(t, first.Adjust(8, nil))
	require.False(t, granted(t, second, card()))
	require.FileExists(t, q.path(second.Number(), stateExt))
	require.NoError(t, first.Leave())
	require.True(t, granted(t, second, card()))
}

func TestEntriesOfOtherHostsAndOfBeforeAReboot(t *testing.T) {
	q := open(t, t.TempDir())
	other := enter(t, q, "other host", Need{Bytes: 6})
	require.True(t, granted(t, other, card()))
	before := enter(t, q, "before the reboot", Need{Bytes: 6})
	other.entry.Host, other.entry.Owner.Boot, before.entry.Owner.Boot = "elsewhere", "another boot", "another boot"
	require.NoError(t, other.Adjust(7, nil))
	require.NoError(t, before.Change(Need{Bytes: 7}))
	other.alive.Close() // like locks on a network file system
	before.alive.Close()

	ticket := enter(t, q, "this host", Need{Bytes: 10})
	require.True(t, granted(t, ticket, card()))
	require.FileExists(t, q.path(other.Number(), stateExt))
	require.NoFileExists(t, q.path(before.Number(), stateExt))
	list, err := q.List()
	require.NoError(t, err)
	require.Len(t, list, 1)
}

func TestPidsOfAnotherNamespaceAreNotBelieved(t *testing.T) {
	devices := []Device{{GPU: "GPU-0", Processes: map[int]int64{1: 1}}}
	require.Equal(t, devices, (&Queue{pids: firstPIDs}).trusted(devices))
	require.Nil(t, (&Queue{pids: "pid:[4026532000]"}).trusted(devices)[0].Processes)
	require.NotNil(t, devices[0].Processes)
}

// On a full disk each change returns a one-line error, and a ticket can still return its device.
func TestAFullDisk(t *testing.T) {
	hermetic.Root(t)
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("a small disk of our own needs root: %v", err)
	}
	t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
	q := open(t, dir)
	first, second := enter(t, q, "first", Need{Bytes: 6}), enter(t, q, "second", Need{Bytes: 6})
	require.True(t, granted(t, first, card()))
	filler, err := os.Create(filepath.Join(dir, "filler"))
	require.NoError(t, err)
	defer filler.Close()
	for err == nil {
		_, err = filler.Write(make([]byte, 4096))
	}
	require.ErrorIs(t, err, syscall.ENOSPC)

	_, err = q.Enter("third", Need{})
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.ErrorContains(t, err, "Try: free some space")
	require.NotContains(t, err.Error(), "\n")
	require.NoError(t, first.Release())
	require.ErrorIs(t, second.Change(Need{Bytes: 5}), syscall.ENOSPC)
	require.Equal(t, int64(6), second.Need().Bytes)
	_, _, err = first.Try(card())
	require.ErrorIs(t, err, syscall.ENOSPC, "a device that can't be claimed")
	require.NoError(t, first.Leave())
	require.NoError(t, os.Truncate(filler.Name(), 0))
	require.True(t, granted(t, second, card()))
}

func TestTroubleIsOneLineWithARemedy(t *testing.T) {
	q := open(t, "/nowhere")
	for err, want := range map[error]string{
		syscall.ENOLCK: "does not support locks", syscall.EOPNOTSUPP: "does not support locks", syscall.EROFS: "writable disk", syscall.EACCES: "permissions",
	} {
		text := q.trouble(&os.PathError{Op: "flock", Path: "x", Err: err}).Error()
		require.Contains(t, text, want)
		require.Contains(t, text, ". Try: ")
	}
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o644))
	_, err := open(t, filepath.Join(file, "queue")).Enter("job", Need{})
	require.ErrorContains(t, err, ". Try: ")
}

func FuzzDecodeEntry(f *testing.F) {
	e := Entry{
		Number: 3, Name: "job", Need: Need{Bytes: 4}, Claim: &Claim{GPU: "GPU-0"}, Looked: time.Second,
	}
	e.Owner.PID, e.Owner.Boot = 1, "boot"
	data, err := e.encode()
	require.NoError(f, err)
	f.Add(data)
	f.Add([]byte(`{"number":1,"owner":{"pid":1,"boot_id":"b"},"need":{"bytes":1125899906842624,"exclusive":true}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		e, err := decodeEntry(data)
		if err != nil {
			return
		}
		again, err := e.encode()
		require.NoError(t, err)
		_, err = decodeEntry(again)
		require.NoError(t, err)
		me := Entry{Number: e.Number + 1, Need: Need{Bytes: 1}}
		if me.Number == 0 {
			return
		}
		claim, verdict := decide([]Entry{e, me}, me.Number, gpus(10, 20), 0)
		require.Equal(t, verdict.Granted, claim.GPU != "")
		_ = verdict.String()
	})
}

func FuzzCounters(f *testing.F) {
	f.Add([]byte("                   7                   9"))
	f.Add([]byte("garbage"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if next, _ := parseCounters(data); next > numberLimit {
			t.Errorf("the next number is %d", next)
		}
	})
}

func TestErrorsOfTheSystemAreNotDamage(t *testing.T) {
	q := open(t, t.TempDir())
	_, err := q.read(1)
	require.ErrorIs(t, err, os.ErrNotExist)
	require.False(t, errors.Is(err, errDamaged))
}
