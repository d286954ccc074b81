package study

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestACountOfSeedsSkipsExploredOnes(t *testing.T) {
	seeds, err := ParseSeeds("4")
	require.NoError(t, err)
	seeds.skip = []int64{42, 43, 46}
	var got []int64
	for i := range seeds.Len() {
		got = append(got, seeds.at(i, 42))
	}
	require.Equal(t, []int64{44, 45, 47, 48}, got)
	require.Nil(t, seeds.List())
	seeds, err = ParseSeeds("42,44")
	require.NoError(t, err)
	seeds.skip = []int64{42}
	require.EqualValues(t, 42, seeds.at(0, 42), "a list is what was asked for")
	require.Equal(t, []int64{42, 44}, seeds.List())
}
