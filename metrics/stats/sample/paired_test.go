package sample

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Student's one-sample test of 0.1, 0.2, 0.3 and 0.2 gives mean 0.2, standard error 0.04082, and t = 4.899 with three
// degrees of freedom.
func TestPairedIsStudentsTestOfTheDifferences(t *testing.T) {
	p := Paired(map[int64]float64{1: 1.1, 2: 1.2, 3: 1.3, 4: 2.2, 9: 7}, map[int64]float64{1: 1, 2: 1, 3: 1, 4: 2, 8: 5})
	require.Equal(t, 4, p.Seeds)
	require.InDelta(t, 0.2, *p.Difference, 1e-12)
	require.InDelta(t, 0.2-3.182446*0.0408248, *p.CILow, 1e-6)
	require.InDelta(t, 0.2+3.182446*0.0408248, *p.CIHigh, 1e-6)
	require.InDelta(t, 0.0163, *p.PValue, 1e-4)
	require.Nil(t, Paired(map[int64]float64{1: 1, 2: 2}, map[int64]float64{2: 1, 3: 1}))
	same := Paired(map[int64]float64{1: 1, 2: 2}, map[int64]float64{1: 0, 2: 1})
	require.Nil(t, same.PValue)
	require.InDelta(t, 1, *same.Difference, 0)
}
