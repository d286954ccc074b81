package node

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func always(int) bool { return true }
func never(int) bool  { return false }

func TestPace(t *testing.T) {
	quiet := func(p *pace, rounds int) {
		for range rounds {
			p.pass()
		}
	}
	t.Run("no limit until something happens", func(t *testing.T) {
		var p pace
		require.False(t, p.fit(24, always, always))
		require.Equal(t, 24, p.size(24))
	})
	t.Run("a prediction halves it until it fits", func(t *testing.T) {
		var p pace
		require.True(t, p.fit(24, func(size int) bool { return size <= 4 }, never))
		require.Equal(t, 3, p.size(24))
		require.Equal(t, 2, p.size(2), "a smaller call is not concerned")
	})
	t.Run("nothing fits: one at a time", func(t *testing.T) {
		var p pace
		p.fit(24, never, never)
		require.Equal(t, 1, p.size(24))
	})
	t.Run("after quiet rounds it doubles as far as there is room", func(t *testing.T) {
		p := pace{Limit: 2}
		quiet(&p, quietRounds-1)
		require.False(t, p.fit(24, always, always))
		p.pass()
		require.True(t, p.fit(24, always, func(size int) bool { return size <= 8 }))
		require.Equal(t, 8, p.Limit)
		require.False(t, p.fit(24, always, always), "and is quiet again")
	})
	t.Run("never to a size that failed", func(t *testing.T) {
		var p pace
		p.fail(24, false)
		require.Equal(t, 12, p.size(24))
		p.fail(12, false)
		quiet(&p, 10*quietRounds)
		require.False(t, p.fit(24, always, always))
		require.Equal(t, 6, p.Limit)
		p.relieve()
		require.True(t, p.fit(24, always, always), "the budget rose")
		require.Equal(t, 24, p.size(24))
	})
	t.Run("to one that failed for others' doing", func(t *testing.T) {
		var p pace
		p.fail(24, true)
		quiet(&p, quietRounds-1)
		require.False(t, p.fit(24, always, always))
		p.pass()
		require.True(t, p.fit(24, always, always))
		require.Equal(t, 24, p.size(24))
	})
}

// A size is always between one and the number requested, and below the size that failed.
func TestPaceStaysInRange(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var p pace
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			asked := rapid.IntRange(1, 100).Draw(t, "asked")
			room := rapid.IntRange(0, 100).Draw(t, "room")
			holds := func(size int) bool { return size <= room }
			switch rapid.IntRange(0, 9).Draw(t, "what") {
			case 0:
				p.fail(p.size(asked), rapid.Bool().Draw(t, "passing"))
			case 1:
				p.relieve()
			case 2:
				p.quiet += rapid.IntRange(0, 2*quietRounds).Draw(t, "rounds")
			default:
				before := p.size(asked)
				changed := p.fit(asked, holds, holds)
				if p.size(asked) != before && !changed {
					t.Fatalf("a silent change from %d to %d", before, p.size(asked))
				}
				if size := p.size(asked); size > 1 && size > room {
					t.Fatalf("%d at a time where %d fit", size, room)
				}
			}
			if size := p.size(asked); size < 1 || size > asked || p.Failed > 1 && size >= p.Failed {
				t.Fatalf("%d at a time of %d: %+v", size, asked, p)
			}
		}
	})
}
