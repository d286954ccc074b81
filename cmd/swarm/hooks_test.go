package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/internal/fail"
)

// A host may die after a run's end is recorded and before its hooks have run. The same command then runs them, once.
func TestHooksOfAnInterruptedEndRunLater(t *testing.T) {
	t.Parallel()
	home, mark := t.TempDir(), filepath.Join(t.TempDir(), "mark")
	called, hang := make(chan struct{}, 9), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		called <- struct{}{}
		<-hang
	}))
	defer server.Close()
	args := growingRun(t, "due", "", "--rounds", "2", "--webhook", server.URL,
		"--on-complete", `echo "$SWARM_RUN $SWARM_EXPERIMENT $SWARM_STATE $SWARM_EXIT_CODE" >>`+mark)
	cmd := swarmCommand(t, home, args...)
	require.NoError(t, cmd.Start())
	<-called
	require.NoError(t, cmd.Process.Kill())
	waitFor(t, cmd)
	close(hang)
	require.Equal(t, "done", status(t, home).State)
	require.NoFileExists(t, mark)

	for range 2 {
		o := swarm(t, home, args...)
		require.Equal(t, fail.ExitDone, o.code, o.stderr)
		require.Contains(t, o.stdout, "due-1 has already done all its 2 rounds.")
		said, err := os.ReadFile(mark)
		require.NoError(t, err)
		require.Equal(t, "due-1 due done 0\n", string(said))
	}
	require.Len(t, called, 1, "the webhook is called again, once")
	require.Equal(t, fail.ExitDone, swarm(t, home, append(args, "--fresh")...).code)
	require.Equal(t, fail.ExitDone, swarm(t, home, args...).code)
	said, err := os.ReadFile(mark)
	require.NoError(t, err)
	require.Equal(t, "due-1 due done 0\ndue-2 due done 0\n", string(said), "hooks that have run are not due")
}
