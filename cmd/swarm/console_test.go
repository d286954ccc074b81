package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/launcher/runlog"
)

// consoleChild is set in a copy of the test binary that writes to a console and then dies of a panic.
const consoleChild = "CONSOLE_TEST_LOG"

// Once its log has been rotated, the last words of a dying program are in the new one.
func TestPanicAfterARotation(t *testing.T) {
	if path := os.Getenv(consoleChild); path != "" {
		c := new(console)
		out := stream{c, os.Stdout}
		fmt.Fprintln(out, "to the starter")
		require.NoError(t, c.open(path))
		line := strings.Repeat("x", 1<<20) + "\n"
		for range 33 {
			fmt.Fprint(out, line)
		}
		go panic("last words")
		select {}
	}
	t.Parallel()
	path := runlog.Path(t.TempDir(), runlog.Coordinator)
	cmd := exec.Command(os.Args[0], "-test.run=^TestPanicAfterARotation$")
	cmd.Env = append(os.Environ(), consoleChild+"="+path)
	o := finish(t, cmd)
	require.Equal(t, 2, o.code)
	require.Contains(t, o.stdout, "to the starter\n")
	require.NotContains(t, o.stdout+o.stderr, "last words")
	older, err := os.Stat(path + ".1")
	require.NoError(t, err)
	require.Greater(t, older.Size(), int64(16<<20))
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Contains(t, string(text), "panic: last words")
}
