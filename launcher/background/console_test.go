package background

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/internal/hermetic"
	"github.com/sapo-swarm/swarm/launcher/runlog"
)

func TestMain(m *testing.M) { os.Exit(hermetic.Main(m)) }

// consoleChild is set in a copy of the test binary that writes to a console and then panics.
const consoleChild = "CONSOLE_TEST_LOG"

// After a rotation, a panic's output is in the new log.
func TestPanicAfterARotation(t *testing.T) {
	if path := os.Getenv(consoleChild); path != "" {
		c := new(Console)
		out, _ := c.Streams(os.Stdout, os.Stderr)
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
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	path := runlog.Path(t.TempDir(), runlog.Coordinator)
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestPanicAfterARotation$")
	cmd.Env = append(os.Environ(), consoleChild+"="+path)
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	var exit *exec.ExitError
	require.ErrorAs(t, cmd.Run(), &exit)
	require.Equal(t, 2, exit.ExitCode())
	require.Contains(t, stdout.String(), "to the starter\n")
	require.NotContains(t, stdout.String()+stderr.String(), "last words")
	older, err := os.Stat(path + ".1")
	require.NoError(t, err)
	require.Greater(t, older.Size(), int64(16<<20))
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Contains(t, string(text), "panic: last words")
}
