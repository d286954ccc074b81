package systemd

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestStateOfAUnit(t *testing.T) {
	t.Parallel()
	require.Equal(t, State{Active: "active", Sub: "running", Enabled: "enabled", Result: "success", PID: 4711, Restarts: 2}, parseState(
		"Result=success\nMainPID=4711\nNRestarts=2\nActiveState=active\nSubState=running\nUnitFileState=enabled"))
	require.Equal(t, State{}, parseState(""))
}

// Has and Units ignore units that swarm did not write.
func TestOwnUnits(t *testing.T) {
	t.Parallel()
	m := Manager{Dir: t.TempDir()}
	text, err := Unit{Directory: "/", Exe: "/bin/true"}.Text()
	require.NoError(t, err)
	require.Empty(t, m.Units())
	require.NoError(t, m.Write("swarm-a.service", text))
	require.NoError(t, os.WriteFile(m.Path("swarm-b.service"), []byte("[Service]\n"), 0o644))
	require.Equal(t, []string{"swarm-a.service"}, m.Units())
	for name, want := range map[string]bool{"swarm-a.service": true, "swarm-c.service": false} {
		there, err := m.Has(name)
		require.NoError(t, err)
		require.Equal(t, want, there)
	}
	_, err = m.Has("swarm-b.service")
	require.EqualError(t, err, m.Path("swarm-b.service")+" was not written by swarm. Try: another NAME")
}
