package hermetic

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEnter(t *testing.T) {
	goCaches := func() string {
		out, err := exec.Command("go", "env", "GOPATH", "GOMODCACHE", "GOCACHE", "GOENV").Output()
		require.NoError(t, err)
		return string(out)
	}
	user, caches := t.TempDir(), goCaches()
	for name, value := range map[string]string{
		"XDG_DATA_HOME": user, "SWARM_HOME": user, "_SWARM_BEGAN_BY": "x", "SWARM_SEED": "3",
		"MODEL_NAME": "x", "HF_TOKEN": "x", "SWARM_PYTHON": "python3", "SWARM_TEST_ROLE": "x", "OTHER": "a=b",
	} {
		t.Setenv(name, value)
	}
	before := os.Environ()

	leave, err := Enter()
	require.NoError(t, err)
	home, err := os.UserHomeDir()
	require.NoError(t, err)
	for name, want := range map[string]string{
		"XDG_CONFIG_HOME": filepath.Join(home, ".config"), "XDG_CACHE_HOME": filepath.Join(home, ".cache"),
		"XDG_DATA_HOME": filepath.Join(home, ".local", "share"), "SWARM_HOME": "", "_SWARM_BEGAN_BY": "", "SWARM_SEED": "", "MODEL_NAME": "", "HF_TOKEN": "",
		"SWARM_PYTHON": "python3", "SWARM_TEST_ROLE": "x", "OTHER": "a=b",
	} {
		require.Equal(t, want, os.Getenv(name), name)
	}
	info, err := os.Stat(os.Getenv("XDG_RUNTIME_DIR"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), info.Mode().Perm())
	require.Equal(t, caches, goCaches())

	leave()
	require.ElementsMatch(t, before, os.Environ())
	require.NoDirExists(t, home)
}
