package terminal

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/metrics/stats"
)

func TestChosenBecause(t *testing.T) {
	for want, choice := range map[string]stats.Choice{
		"best held-out reward, 0.250 after 1 round": {Node: "node_1", By: stats.ByHeldOut, Reward: 0.25, Round: 1},
		"best recent reward, 0.500":                 {Node: "node_1", By: stats.ByRecent, Reward: 0.5, Round: 9},
		"the first; no reward is recorded":          {Node: "node_0", By: stats.ByOrder},
		"":                                          {Node: "node_0"},
	} {
		require.Equal(t, want, ChosenBecause(choice))
	}
}
