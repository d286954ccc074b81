package profile

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/configs"
)

func TestSizesOfAProfile(t *testing.T) {
	c := configs.Default()
	c.NumTrainSamples, c.NumTransplantTrees, c.NumGenerations = 4, 4, 8 // 32 completions, 64 sequences
	for text, want := range map[string][]int{"": nil, "1,4, 16": {1, 4, 16}, "1,64,2": {1, 64, 2}} {
		sizes, err := ParseSizes(text)
		require.NoError(t, err, text)
		require.Equal(t, want, sizes)
		require.NoError(t, CheckSizes(text, sizes, c), text)
	}
	for _, text := range []string{"0", "x", "1,,2", "-1", "1 2", "2000000"} {
		_, err := ParseSizes(text)
		require.ErrorContains(t, err, "whole numbers from 1, such as 1,4,16", text)
	}
	// One size, the same size twice, one size for each phase, more than a round has.
	for _, text := range []string{"4", "4,4", "1,64", "1,2,65"} {
		sizes, err := ParseSizes(text)
		require.NoError(t, err)
		require.ErrorContains(t, CheckSizes(text, sizes, c), "numbers from 1 to 64", text)
	}
}
