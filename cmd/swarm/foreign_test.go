package main

import (
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/launcher/coordinator"
	"github.com/sapo-swarm/swarm/launcher/plan"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// Commands that need a node's weights or journals refuse a run of other programs' nodes. Otherwise they would
// evaluate the configuration's model instead, or report the run as damaged.
func TestRunsOfOtherProgramsNodesAreNotEvaluatedSavedOrVerified(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	s, err := store.Open(t.Context(), filepath.Join(home, "swarm.db"), store.Options{})
	require.NoError(t, err)
	own := plan.Trainer{Command: "python3 train.py"}
	made, err := json.Marshal(coordinator.Versions{Inputs: own.Inputs()})
	require.NoError(t, err)
	require.NoError(t, s.StartRun(t.Context(), store.Run{Run: "bandit-1", Experiment: "bandit", Rounds: 1, NodeIDs: []string{"node_0"}, Versions: made,
		Config: json.RawMessage(`{}`), Started: 1}))
	require.NoError(t, s.Close())
	old := oldFolder(t, "old-4loc4ext", 3)
	require.Equal(t, 0, swarm(t, home, "import", old).code)
	for name, want := range map[string]string{"bandit": "belong to a --node-command", "old-4loc4ext": "was imported"} {
		for _, args := range [][]string{
			{"verify", name}, {"eval", name}, {"eval", name, "--node", "node_0", "--round", "0"}, {"model", "save", name, "node_0", filepath.Join(home, "m")},
		} {
			o := swarm(t, home, args...)
			require.Equal(t, fail.ExitUsage, o.code, "%v: %s", args, o.stderr)
			require.Contains(t, o.stderr, want, args)
			require.Empty(t, o.stdout)
		}
	}
}

func TestErrorsOfFlagsAreNotGos(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]string{
		"abc":                        `Error: invalid argument "abc" for "--top" flag: invalid syntax` + "\n",
		`a": b`:                      `Error: invalid argument "a\": b" for "--top" flag: invalid syntax` + "\n",
		"99999999999999999999999999": "value out of range\nTry: swarm compare --help\n",
	} {
		o := swarm(t, t.TempDir(), "compare", "--top", value)
		require.Equal(t, fail.ExitUsage, o.code)
		require.Contains(t, o.stderr, want)
		require.NotContains(t, o.stderr, "strconv")
	}
}

// An empty --node-command is usually an unset shell variable. It is refused, because the user did not ask for SAPO.
func TestAnEmptyNodeCommandIsRefused(t *testing.T) {
	t.Parallel()
	for _, command := range []string{"", " "} {
		o := swarm(t, t.TempDir(), "up", "--node-command", command, "--device", "cpu", "--nodes", "1", "--rounds", "1")
		require.Equal(t, fail.ExitUsage, o.code)
		require.Contains(t, o.stderr, "Error: --node-command is empty\nTry: --node-command ")
	}
}

func TestUpNamesItsOwnFlagForAnAddressThatIsNone(t *testing.T) {
	t.Parallel()
	o := swarm(t, t.TempDir(), "up", "--dashboard=8421", "--device", "cpu", "--nodes", "1", "--rounds", "1")
	require.Equal(t, fail.ExitUsage, o.code)
	require.Contains(t, o.stderr, `"8421" (--dashboard): allowed: an address and a port`)
}
