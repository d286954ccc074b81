package resolve

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
)

// One line lists rl-swarm's variables that took effect, and the common ones that did not.
func TestEnvironmentNote(t *testing.T) {
	const leaves = " (rl-swarm's names; --ignore-rl-swarm-env ignores them)"
	for _, tt := range []struct{ args, environ, want string }{
		{"", "HOME=/root SWARM_SEED=3", ""},
		{"", "EXPERIMENT_NAME=e SEED=7 MODEL_NAME=gpt2", "Used from the environment: EXPERIMENT_NAME=e, SEED=7, MODEL_NAME=gpt2" + leaves},
		{"", "MAX_ROUNDS=3", "Used from the environment: MAX_ROUNDS=3" + leaves},
		{"--rounds 5", "MAX_ROUNDS=3", ""},
		{"--set rounds=5", "MAX_ROUNDS=3", ""},
		{"", "MAX_ROUNDS=3 SWARM_ROUNDS=4", ""},
		{"--ignore-rl-swarm-env", "MAX_ROUNDS=3 SEED=7", ""},
		{"", "SEED=7", "Not used from the environment: SEED=7 (many shells export it; --seed sets it)"},
		{"", "SEED=7 MODEL_NAME=gpt2", "Not used from the environment: SEED=7, MODEL_NAME=gpt2 (many shells export them; --seed and --model set them)"},
		{"--seed 3", "SEED=7", ""},
		{"", "SEED=7 SWARM_SEED=3", ""},
		{"", "SEED=7 NODE_ID=node_1", "Used from the environment: SEED=7" + leaves},
		{"", "SEED=7 NODE_ID=", "Not used from the environment: SEED=7 (many shells export it; --seed sets it)"},
		{"", "EXPERIMENT_NAME=a\x1bb" + strings.Repeat("c", 99), "Used from the environment: EXPERIMENT_NAME=a" + strings.Repeat("c", 59) + "…" + leaves},
	} {
		var f Flags
		fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
		f.AddFlags(fs)
		require.NoError(t, fs.Parse(strings.Fields(tt.args)))
		require.Equal(t, tt.want, f.EnvironmentNote(strings.Split(tt.environ, " ")), tt)
	}
}
