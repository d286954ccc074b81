package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWhatIsSaidBeginsOnALineOfItsOwn(t *testing.T) {
	t.Parallel()
	var buffer bytes.Buffer
	l := newLiner(&buffer)
	for _, step := range []struct{ output, after string }{{"", "1\n"}, {"done\n", "1\ndone\n2\n"}, {" 99%|##", "1\ndone\n2\n 99%|##\n3\n"}} {
		buffer2 := buffer.Len()
		_, err := l.Write([]byte(step.output))
		require.NoError(t, err)
		require.Equal(t, len(step.output), buffer.Len()-buffer2)
		l.say(step.after[len(step.after)-2:])
		require.Equal(t, step.after, buffer.String())
	}
}

// A progress bar ends without a newline. In one file with it our words begin on their own line, and where stdout is another file nothing is added.
func TestRunEndsTheCommandsLastLineWhereItWritesItself(t *testing.T) {
	t.Parallel()
	home, dir := t.TempDir(), t.TempDir()
	runTo := func(set func(cmd *exec.Cmd, file *os.File)) string {
		file, err := os.Create(filepath.Join(t.TempDir(), "out"))
		require.NoError(t, err)
		defer file.Close()
		cmd := runIn(t, home, dir, "--cpu", "only", "--", "printf", "100%%")
		set(cmd, file)
		require.NoError(t, cmd.Run())
		text, err := os.ReadFile(file.Name())
		require.NoError(t, err)
		return string(text)
	}
	both := runTo(func(cmd *exec.Cmd, file *os.File) { cmd.Stdout, cmd.Stderr = file, file })
	require.Contains(t, both, "\n100%\nswarm run: done")
	require.Equal(t, "100%", runTo(func(cmd *exec.Cmd, file *os.File) { cmd.Stdout = file }))
	require.True(t, strings.HasPrefix(runTo(func(cmd *exec.Cmd, file *os.File) { cmd.Stderr = file }), "swarm run: attempt 1"))
	log, err := os.ReadFile(filepath.Join(home, "jobs", "printf-1", "log"))
	require.NoError(t, err)
	require.Contains(t, string(log), "\n100%\nswarm run: done")
}
