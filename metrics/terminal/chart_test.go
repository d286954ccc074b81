package terminal

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sapo-swarm/swarm/internal/charset"
)

// dotAt reports whether a chart has a dot at a position.
func dotAt(rows []string, x, y int) bool {
	return ([]rune(rows[y/4])[x/2]-charset.Braille)&brailleDots[y%4][x%2] != 0
}

func TestCharts(t *testing.T) {
	require.Equal(t, []string{"⡠⠊"}, chart([]float64{0, 1, 2, 3}, 2, 1))
	require.Equal(t, []string{"⠀⠀"}, chart(nil, 2, 1))
	require.Equal(t, []string{"⠀⠀"}, chart([]float64{math.NaN()}, 2, 1))
	require.Equal(t, []string{"⠤⠤"}, chart([]float64{7, 7}, 2, 1))
	require.Equal(t, []string{"⠉⠀⣀"}, chart([]float64{1, 1, math.NaN(), math.NaN(), 0, 0}, 3, 1))
}

// For any number of values, the greatest is in the first row and the least in the last. No value causes a panic.
func TestChartsKeepExtremes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Float64(), 1, 500).Draw(t, "values")
		width, height := rapid.IntRange(1, 60).Draw(t, "width"), rapid.IntRange(1, 12).Draw(t, "height")
		rows := chart(values, width, height)
		require.Len(t, rows, height)
		low, high := extent(values)
		if !(high > low) || math.IsInf(high-low, 0) {
			return
		}
		top, bottom := false, false
		for x := range 2 * width {
			top = top || dotAt(rows, x, 0)
			bottom = bottom || dotAt(rows, x, 4*height-1)
		}
		require.True(t, top)
		require.True(t, bottom)
	})
}

func TestBooksForgetTheOldestAndKeepNumbers(t *testing.T) {
	b := newBook(4)
	for i := range 11 {
		b.add(string(rune('a' + i)))
	}
	first, end := b.span()
	require.Equal(t, 11, end)
	require.LessOrEqual(t, end-first, 5)
	require.Equal(t, []string{"j", "k"}, b.last(2))
	require.Equal(t, []string{"k"}, b.read(10, 99))
	require.Nil(t, b.read(0, 3))
	require.Equal(t, 9, b.find("j", 10, 1), "round the end")
	require.Equal(t, 9, b.find("j", 10, -1))
	require.Equal(t, -1, b.find("a", 10, -1), "forgotten")
	require.Equal(t, -1, newBook(4).find("a", 0, 1))
}
