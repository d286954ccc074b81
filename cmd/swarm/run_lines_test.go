package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A progress bar ends without a newline. If swarm's messages go to the same file, they begin on a new line. If stdout
// is another file, nothing is added.
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
