package terminal

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/metrics/stats/evaluation"
)

func TestChosenBecause(t *testing.T) {
	for want, choice := range map[string]evaluation.Choice{
		"best held-out reward, 0.250 after 1 round": {Node: "node_1", By: evaluation.ByHeldOut, Reward: 0.25, Round: 1},
		"best recent reward, 0.500":                 {Node: "node_1", By: evaluation.ByRecent, Reward: 0.5, Round: 9},
		"the first; no reward is recorded":          {Node: "node_0", By: evaluation.ByOrder},
		"":                                          {Node: "node_0"},
	} {
		require.Equal(t, want, ChosenBecause(choice))
	}
}
