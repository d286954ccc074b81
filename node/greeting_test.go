package node

import (
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/metrics/event"
)

// A pipe that breaks before the assignment says nothing about the assignment. The launcher may start the node
// again.
func TestAPipeWithoutAnAssignmentIsNoConfiguration(t *testing.T) {
	t.Parallel()
	for name, stdin := range map[string]io.Reader{
		"closed": strings.NewReader(""), "torn": strings.NewReader(`{"type":"sta`),
		"broken": iotest.ErrReader(&fs.PathError{Op: "read", Path: "/dev/stdin", Err: os.ErrClosed}),
	} {
		var told strings.Builder
		require.Equal(t, ExitFailed, Process(t.Context(), stdin, &told, io.Discard, nil, slog.New(slog.DiscardHandler)), name)
		require.Empty(t, told.String(), name)
	}
	var told strings.Builder
	require.Equal(t, ExitConfig, Process(t.Context(), strings.NewReader("{}\n"), &told, io.Discard, nil, slog.New(slog.DiscardHandler)))
	require.Contains(t, told.String(), `"cause":"config"`)
}

// An engine that dies before its hello does not prove a fault of the interpreter, because the coordinator has seen
// that interpreter import torch.
func TestAnEngineThatDiesAtItsGreetingMayBeStartedAgain(t *testing.T) {
	t.Parallel()
	server := broker(t, "greeting")
	for _, tt := range []struct {
		script, cause string
		code          int
	}{
		{"kill -9 $$", event.CauseEngine, ExitFailed},
		{"kill -11 $$", event.CauseEngine, ExitFailed},
		{"echo ImportError: cannot allocate memory >&2; exit 1", event.CauseEngine, ExitFailed},
		{`read -r _; echo '{"id":1,"error":{"kind":"internal","message":"CUDA unknown error"}}'; read -r _`, event.CauseEngine, ExitFailed},
	} {
		start := assignment(t, server, "greeting", t.TempDir(), nil)
		start.Python = filepath.Join(t.TempDir(), "python3")
		require.NoError(t, os.WriteFile(start.Python, []byte("#!/bin/sh\n"+tt.script+"\n"), 0o755))
		l := begin(t, start)
		l.ends(tt.code)
		require.Equal(t, tt.cause, l.failure().Cause, tt.script)
	}
}
