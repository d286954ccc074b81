package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/node/policy"
)

// A skipped Python without torch must not make doctor report that the found Python's engines start without the engine
// host.
func TestDoctorTellsOfTheFoundPythonsEngineHost(t *testing.T) {
	t.Parallel()
	venv := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(venv, "bin"), 0o755))
	without := "#!/bin/sh\necho \"ModuleNotFoundError: No module named 'torch'\" >&2\nexit 1\n"
	require.NoError(t, os.WriteFile(filepath.Join(venv, "bin", "python3"), []byte(without), 0o755))
	cmd := swarmCommand(t, t.TempDir(), "doctor")
	path := filepath.Dir(usablePython(t)) + string(os.PathListSeparator) + os.Getenv("PATH")
	cmd.Env = append(cmd.Env, "SWARM_PYTHON=", "VIRTUAL_ENV="+venv, "PATH="+path, policy.HostVariable+"=", "SWARM_NVML_LIBRARY=/nonexistent/libnvidia-ml.so.1")
	o := finish(t, cmd)
	require.Equal(t, 0, o.code, o.stdout)
	require.Regexp(t, `(?m)^skipped +python +`+venv, o.stdout)
	require.Regexp(t, `(?m)^ok +engine +answers after `, o.stdout)
	require.NotContains(t, o.stdout, "no engine host")
}
