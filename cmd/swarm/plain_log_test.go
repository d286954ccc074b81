package main

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/internal/plainlog"
	"github.com/sapo-swarm/swarm/launcher/background"
	"github.com/sapo-swarm/swarm/launcher/coordinator"
)

// On a terminal a warning is a plain line. Elsewhere it stays a structured record.
func TestWarningsOnATerminalArePlainLines(t *testing.T) {
	t.Parallel()
	log := func(l *slog.Logger) {
		l = l.With("node", "node_0").WithGroup("gpu").With("index", 1)
		l.Warn("it is\nfull", "free_bytes", 5, "why", "a \x1b[31mred\x1b[0m reason")
		l.Info("and on")
		l.Debug("not told")
	}
	var records bytes.Buffer
	log(plainlog.New(&records, slog.LevelInfo))
	require.Contains(t, records.String(), `level=WARN msg="it is\nfull" node=node_0 gpu.index=1 gpu.free_bytes=5`)

	ours, theirs := openTerminal(t)
	screen := &watcher{}
	go screen.follow(ours)
	log(plainlog.New(theirs, slog.LevelInfo))
	require.Eventually(t, func() bool { return screen.shows("and on (node: node_0, gpu.index: 1)") }, patience, pollEvery)
	require.True(t, screen.shows("Warning: it is; full (node: node_0, gpu.index: 1, gpu.free bytes: 5, gpu.why: a red reason)"))
	require.False(t, screen.shows("not told"))

	// In the background, lines are plain only until the log is open.
	out, err := new(background.Console).Streams(theirs, new(strings.Builder))
	require.True(t, plainlog.Watched(out))
	require.False(t, plainlog.Watched(err))
}

// Ctrl-C promises a checkpoint only when a node has something to save. Here the interpreter is still being checked.
func TestAnEarlySignalPromisesNoCheckpoint(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	python := filepath.Join(home, "python3")
	require.NoError(t, os.WriteFile(python, []byte("#!/bin/sh\ntouch \"$0.asked\"\nexec sleep 60\n"), 0o700))
	cmd := swarmCommand(t, home, "--python", python, "up", "8loc0ext", "--nodes", "1", "--model", tinyModel(), "--tasks-file", items(), "--device", "cpu")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	require.NoError(t, cmd.Start())
	require.Eventually(t, func() bool { _, err := os.Stat(python + ".asked"); return err == nil }, patience, pollEvery)
	require.NoError(t, cmd.Process.Signal(syscall.SIGINT))
	require.Equal(t, 130, waitFor(t, cmd))
	require.Equal(t, coordinator.StopEarly+"\n", stderr.String())
	require.NotContains(t, stderr.String(), "checkpoint")
}
