package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/node/mpsclient"
	"github.com/sapo-swarm/swarm/node/policy"
)

// mpsDaemon starts a control daemon whose server faults if a client ends while it is busy. It returns its clients'
// environment and a function that reads the server's log.
func mpsDaemon(t *testing.T) (environ []string, log func() string) {
	t.Helper()
	pipe, err := os.MkdirTemp("/tmp", "swarm-mps-") // the socket's path must be short
	require.NoError(t, err)
	logs := t.TempDir()
	environ = append(os.Environ(), "FAKE_MPS=fragile", "CUDA_MPS_PIPE_DIRECTORY="+pipe, "CUDA_MPS_LOG_DIRECTORY="+logs, "GORACE=atexit_sleep_ms=0")
	control := func(command string, args ...string) {
		cmd := exec.Command("nvidia-cuda-mps-control", args...)
		cmd.Env, cmd.Stdin = environ, strings.NewReader(command)
		var said bytes.Buffer
		if len(args) == 0 {
			cmd.Stdout, cmd.Stderr = &said, &said
		}
		require.NoError(t, cmd.Run(), said.String())
	}
	control("", "-d")
	t.Cleanup(func() {
		control("quit\n")
		os.RemoveAll(pipe)
	})
	return environ, func() string {
		text, err := os.ReadFile(filepath.Join(logs, "server.log"))
		require.NoError(t, err)
		return string(text)
	}
}

// A node that kills its engine within a kernel does not harm other clients of its GPU: the server releases the engine
// first.
func TestAKilledEngineSparesTheOthersUnderMPS(t *testing.T) {
	t.Parallel()
	for _, announced := range []bool{true, false} {
		t.Run(fmt.Sprintf("announced %t", announced), func(t *testing.T) {
			environ, log := mpsDaemon(t)
			dir := t.TempDir()
			script := "#!/bin/sh\nfake-mps-client $$ busy >" + filepath.Join(dir, "client") + " 2>&1 </dev/null &\n" +
				"until grep -q connected " + filepath.Join(dir, "client") + "; do sleep 0.02; done\n" +
				fmt.Sprintf("read -r line; echo '{\"id\":1,\"result\":{\"protocol\":%d}}'\nexec sleep 600\n", policy.ProtocolVersion)
			require.NoError(t, os.WriteFile(filepath.Join(dir, "engine.sh"), []byte(script), 0o755))
			options := policy.Options{Python: filepath.Join(dir, "engine.sh"), Dir: dir, Env: environ, Stderr: io.Discard}
			if announced {
				options.BeforeKill = mpsclient.BeforeKill(environ, func(trouble string) { t.Error(trouble) })
			}
			engine, err := policy.Start(t.Context(), options)
			require.NoError(t, err)
			engine.Close() // it is busy and does not exit
			disconnected := fmt.Sprintf("Client %d disconnected", engine.PID())
			require.Eventually(t, func() bool { return strings.Contains(log(), disconnected) }, 20*time.Second, 20*time.Millisecond)
			if announced {
				require.NotContains(t, log(), "fatal GPU error")
			} else {
				require.Eventually(t, func() bool { return strings.Contains(log(), "fatal GPU error") }, 20*time.Second, 20*time.Millisecond)
			}
		})
	}
}
