package policy_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/node/policy"
)

// fakePython writes an interpreter that reports this torch version, or none for "".
func fakePython(t *testing.T, path, torch string) string {
	t.Helper()
	script := "#!/bin/sh\necho 'torch " + torch + " 1'\n"
	if torch == "" {
		script = "#!/bin/sh\necho 'Traceback:' >&2\necho \"ModuleNotFoundError: No module named 'torch'\" >&2\nexit 1\n"
	}
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, []byte(script), 0o755))
	return path
}

// environment returns a getenv for a map.
func environment(values map[string]string) func(string) string {
	return func(name string) string { return values[name] }
}

func TestFindPythonOrder(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	t.Setenv("PATH", filepath.Join(dir, "path")+":"+os.Getenv("PATH"))
	home := filepath.Join(dir, "home")
	env := environment(map[string]string{"VIRTUAL_ENV": filepath.Join(dir, "active"), "CONDA_PREFIX": filepath.Join(dir, "conda")})
	order := []string{"active/bin/python3", "conda/bin/python3", "home/venv/bin/python3", "path/python3"}
	for _, path := range order {
		fakePython(t, filepath.Join(dir, path), path)
	}
	var without []string
	for _, path := range order {
		found, probes, err := policy.FindPython(t.Context(), "", home, env, nil)
		require.NoError(t, err)
		require.Equal(t, path, found.Torch)
		require.Equal(t, filepath.Join(dir, path), found.Path)
		require.True(t, found.CUDA)
		var tried []string
		for _, p := range probes[:len(probes)-1] {
			require.Equal(t, "ModuleNotFoundError: No module named 'torch'", p.Err)
			tried = append(tried, p.Path)
		}
		require.Equal(t, without, tried)
		without = append(without, filepath.Join(dir, path))
		fakePython(t, filepath.Join(dir, path), "")
	}
}

// A cloned folder may contain another user's .venv. It runs only if the user names or activates it.
func TestTheVirtualEnvironmentOfTheCurrentFolderIsNotRunUnasked(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	path, ran := filepath.Join(dir, ".venv", "bin", "python3"), filepath.Join(dir, "ran")
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\ntouch '"+ran+"'\necho 'torch 2.0 1'\n"), 0o755))
	none := func(context.Context, string) policy.Probe { return policy.Probe{Err: "no torch"} }
	probe := func(ctx context.Context, python string) policy.Probe {
		if python != path {
			return none(ctx, python)
		}
		return policy.ProbePython(ctx, python)
	}
	_, probes, err := policy.FindPython(t.Context(), "", filepath.Join(dir, "home"), environment(nil), probe)
	require.ErrorIs(t, err, policy.ErrNoPython)
	require.NoFileExists(t, ran)
	require.Equal(t, path, probes[len(probes)-1].Path, "it is named")
	require.Contains(t, probes[len(probes)-1].Err, "--python .venv/bin/python3")

	found, _, err := policy.FindPython(t.Context(), ".venv/bin/python3", dir, environment(nil), probe)
	require.NoError(t, err)
	require.Equal(t, path, found.Path)
	require.FileExists(t, ran)
	found, _, err = policy.FindPython(t.Context(), "", dir, environment(map[string]string{"VIRTUAL_ENV": filepath.Join(dir, ".venv")}), probe)
	require.NoError(t, err)
	require.Equal(t, path, found.Path)
}

// An interpreter that the user names is the only candidate.
func TestFindPythonNamed(t *testing.T) {
	dir := t.TempDir()
	good, bad := fakePython(t, filepath.Join(dir, "good"), "2.0"), fakePython(t, filepath.Join(dir, "bad"), "")
	odd := filepath.Join(dir, "odd")
	require.NoError(t, os.WriteFile(odd, []byte("#!/bin/sh\necho hello\n"), 0o755))
	cases := []struct {
		name, explicit, env string
		path, says          string
	}{
		{"--python", good, bad, good, ""},
		{"$SWARM_PYTHON", "", good, good, ""},
		{"--python without torch", bad, good, "", bad + " (--python): ModuleNotFoundError: No module named 'torch'"},
		{"$SWARM_PYTHON without torch", "", bad, "", bad + " ($SWARM_PYTHON): ModuleNotFoundError: No module named 'torch'"},
		{"--python that is not there", "/no/such/python", good, "", "/no/such/python (--python): no such program"},
		{"a program that is no Python", odd, "", "", "it printed no torch version"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			found, probes, err := policy.FindPython(t.Context(), c.explicit, dir, environment(map[string]string{"SWARM_PYTHON": c.env}), nil)
			require.Len(t, probes, 1)
			require.Equal(t, c.path, found.Path)
			if c.says == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, policy.ErrNoPython)
			require.ErrorContains(t, err, c.says)
		})
	}
}

// A relative --python is relative to the user's folder, not to the engine's.
func TestFindPythonRelative(t *testing.T) {
	options, _ := fake(t, `if [ "$1" = -c ]; then echo 'torch 2.0 0'; exit; fi`+"\n"+greet+"read -r line")
	t.Chdir(filepath.Dir(options.Python))
	found, _, err := policy.FindPython(t.Context(), "./engine.sh", "", environment(nil), nil)
	require.NoError(t, err)
	require.Equal(t, options.Python, found.Path)
	options.Python, options.Dir = found.Path, t.TempDir()
	engine, err := policy.Start(t.Context(), options)
	require.NoError(t, err)
	engine.Close()
}

// A torch.py in the user's folder is not the torch that the engine imports.
func TestFindPythonIgnoresTheCurrentFolder(t *testing.T) {
	python := lab.Options(t).Python
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "torch.py"), []byte("raise SystemExit('the wrong torch')\n"), 0o644))
	t.Chdir(dir)
	found, _, err := policy.FindPython(t.Context(), python, "", environment(nil), nil)
	require.NoError(t, err)
	require.NotEmpty(t, found.Torch)
}

func TestFindPythonStopsWithItsContext(t *testing.T) {
	dir := t.TempDir()
	slow := filepath.Join(dir, "slow")
	require.NoError(t, os.WriteFile(slow, []byte("#!/bin/sh\nexec sleep 60\n"), 0o755))
	ctx, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	_, _, err := policy.FindPython(ctx, slow, dir, environment(nil), nil)
	require.ErrorIs(t, err, context.DeadlineExceeded)
}
