package mpsclient

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// controlProgram installs a shell script as MPS's control program. It returns the file that records the commands.
func controlProgram(t *testing.T, script string) (said string) {
	t.Helper()
	dir := t.TempDir()
	said = filepath.Join(dir, "said")
	text := fmt.Sprintf("#!/bin/sh\nread -r line\necho \"$CUDA_MPS_PIPE_DIRECTORY $line\" >>%s\n%s", said, script)
	require.NoError(t, os.WriteFile(filepath.Join(dir, program), []byte(text), 0o755))
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	return said
}

// BeforeKill asks each server to end the engine's work. cmd/swarm tests it against a daemon that acts like a real
// one.
func TestBeforeKillAsksEachServer(t *testing.T) {
	said := controlProgram(t, `case $line in get_server_list) echo 71; echo "  72"; echo of these;; esac`)
	var troubles []string
	hook := BeforeKill([]string{pipe + "=/old", pipe + "=/pipe"}, func(text string) { troubles = append(troubles, text) })
	hook(4711)
	text, err := os.ReadFile(said)
	require.NoError(t, err)
	require.Equal(t, "/pipe get_server_list\n/pipe terminate_client 71 4711\n/pipe terminate_client 72 4711\n", string(text))
	require.Empty(t, troubles)
}

// A daemon that hangs or has ended does not prevent the kill.
func TestBeforeKillIsBounded(t *testing.T) {
	for script, want := range map[string]string{
		"exec sleep 60": "nvidia-cuda-mps-control: get_server_list: no answer within 3s",
		"exit 1":        "nvidia-cuda-mps-control: get_server_list: exit status 1",
	} {
		t.Run(script, func(t *testing.T) {
			controlProgram(t, script)
			var troubles []string
			began := time.Now()
			BeforeKill([]string{pipe + "=/pipe"}, func(text string) { troubles = append(troubles, text) })(4711)
			require.Less(t, time.Since(began), answers+5*time.Second)
			require.Equal(t, []string{"MPS did not release the engine before its kill: " + want}, troubles)
		})
	}
}

// cmd/swarm/testdata/script/mps.txtar tests the same with real processes.
func TestEnginesWithoutMPSUseNoDaemon(t *testing.T) {
	require.Equal(t, []string{"A=1", pipe + "=/dev/null"}, Apart([]string{"A=1"}))
	require.Equal(t, []string{pipe + "=", pipe + "=/dev/null"}, Apart([]string{pipe + "="}))
	require.Equal(t, []string{pipe + "=/pipe"}, Apart([]string{pipe + "=/pipe"}), "the launcher's or the user's choice")
}

func TestWithoutMPSNobodyIsAsked(t *testing.T) {
	require.Nil(t, BeforeKill(nil, nil))
	require.Nil(t, BeforeKill([]string{pipe + "=/pipe", pipe + "="}, nil))
	require.Nil(t, BeforeKill([]string{pipe + "=/dev/null"}, nil))
	require.False(t, Limits([]string{pipe + "=/pipe"}), "another's daemon, without a limit")
	require.True(t, Limits([]string{limit + "=0=6198M"}))
}
