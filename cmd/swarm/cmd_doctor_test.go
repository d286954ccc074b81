package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/internal/screen"
	"github.com/sapo-swarm/swarm/internal/table"
	"github.com/sapo-swarm/swarm/node/policy"
)

// An interpreter without torch is skipped where another one has it, and missing where none has. It is never ok.
func TestDoctorSkipsInterpreters(t *testing.T) {
	t.Parallel()
	probes := []policy.Probe{{Path: "/a/python3", Source: "PATH", Err: "ModuleNotFoundError: No module named 'torch'"}, {Path: "/b/python3", Source: "system", Torch: "2.1"}}
	for another, want := range map[bool]string{true: "skipped", false: "MISSING"} {
		var out bytes.Buffer
		g := &globals{stdout: &out}
		require.NoError(t, screen.Print(g.stdout, func(p *table.Page) { p.Table(doctorTable(withoutTorch(probes, another))) }))
		require.Regexp(t, "^"+want+" +python +/a/python3 \\(PATH\\): ModuleNotFoundError: No module named 'torch'\n$", out.String())
	}
}

// A Python that is passed over for want of torch is no reason why engines of the one that was found start by themselves.
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
	require.NotContains(t, o.stdout, "started by itself")
}
