package main

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/sapo-swarm/swarm/metrics/store"
)

// fill writes to a file until it takes no more, because nobody reads it.
func fill(t *testing.T, file *os.File) *os.File {
	t.Helper()
	fd := int(file.Fd())
	require.NoError(t, unix.SetNonblock(fd, true))
	for _, size := range []int{4096, 1} {
		var err error
		for err == nil {
			_, err = unix.Write(fd, make([]byte, size))
		}
		require.ErrorIs(t, err, unix.EAGAIN)
	}
	require.NoError(t, unix.SetNonblock(fd, false))
	return file
}

// fullPipe returns a full pipe that nobody reads, such as that of tee on a terminal after Ctrl-S.
func fullPipe(t *testing.T) *os.File {
	t.Helper()
	read, write, err := os.Pipe()
	require.NoError(t, err)
	t.Cleanup(func() { read.Close(); write.Close() })
	return fill(t, write)
}

// A reader of the output that stops reading does not stop the nodes, the end of the run, or --on-complete.
func TestARunWhoseOutputNobodyReadsEnds(t *testing.T) {
	t.Parallel()
	up := func(more ...string) []string { return append([]string{"up"}, tinyRun(more...)...) }
	for name, test := range map[string]struct {
		args []string
		live bool
	}{
		"up":    {args: up("--rounds", "2")},
		"json":  {args: up("--rounds", "2", "-o", "json")},
		"live":  {args: up("--rounds", "60"), live: true}, // the live view starts while the nodes train
		"sweep": {args: sweepArgs([]string{"8loc0ext"}, "--rounds", "2", "--seeds", "1")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mark := filepath.Join(t.TempDir(), "mark")
			cmd := swarmCommand(t, t.TempDir(), append(test.args, "--on-complete", "echo said; touch "+mark)...)
			var out *os.File
			if test.live {
				_, theirs := openTerminal(t)
				out = fill(t, theirs)
				cmd.Env = append(cmd.Env, "TERM=xterm")
				cmd.Stdin, cmd.SysProcAttr = out, &syscall.SysProcAttr{Setsid: true, Setctty: true}
			} else {
				out = fullPipe(t)
			}
			cmd.Stdout, cmd.Stderr = out, out
			require.NoError(t, cmd.Start())
			require.Equal(t, 0, waitFor(t, cmd))
			require.FileExists(t, mark)
		})
	}
}

// SIGTERM stops such a run after a checkpoint.
func TestARunWhoseOutputNobodyReadsStops(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	cmd := swarmCommand(t, home, append([]string{"up"}, tinyRun("--rounds", "100000")...)...)
	out := fullPipe(t)
	cmd.Stdout, cmd.Stderr = out, out
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { cmd.Process.Kill() })
	require.Eventually(t, func() bool {
		o := within(home, "status", "-o", "json")
		return o.code == 0 && status(t, home).Round > 0
	}, patience, pollEvery)
	send(t, cmd.Process.Pid, syscall.SIGTERM)
	began := time.Now()
	require.Equal(t, 128+int(syscall.SIGTERM), waitFor(t, cmd))
	require.Less(t, time.Since(began), time.Minute)
	require.Equal(t, store.RunStopped, status(t, home).State)
}
