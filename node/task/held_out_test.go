package task

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func anything(Item) bool { return true }

// heldOutSeed is an arbitrary function of its two arguments.
func heldOutSeed(task string, index int) uint64 {
	source := splitMix(uint64(len(task))<<32 + uint64(index))
	return source.next()
}

func TestHeldOutItemsShareEvenly(t *testing.T) {
	specs := []Spec{
		{Name: "binary_matrix", Weight: 9}, {Name: "base_conversion", Weight: 1, Params: map[string]any{"max_base": 4, "max_value": 20}},
		{Name: "fraction_simplification", Weight: 0.1},
	}
	list := mustSet(t, specs...).HeldOutItems(40, heldOutSeed, anything)
	require.Len(t, list, 40)
	counts, questions := map[string]int{}, map[string]bool{}
	for _, item := range list {
		require.True(t, HeldOut(item))
		require.False(t, questions[item.Question])
		questions[item.Question] = true
		counts[item.Task()]++
	}
	few := counts["base_conversion"]
	require.Less(t, few, 13, "numbers up to 20 in three bases have no 13 held-out questions")
	require.Positive(t, few)
	require.Equal(t, map[string]int{"binary_matrix": (41 - few) / 2, "base_conversion": few, "fraction_simplification": (40 - few) / 2}, counts)

	// A task's items are the same in another mixture, as far as that mixture uses them.
	var alone, among []Item
	alone = mustSet(t, specs[2]).HeldOutItems(5, heldOutSeed, anything)
	for _, item := range list {
		if item.Task() == "fraction_simplification" {
			among = append(among, item)
		}
	}
	require.Equal(t, alone, among[:5])
}

func TestHeldOutItemsAreAllowed(t *testing.T) {
	set := mustSet(t, Spec{Name: "basic_arithmetic", Weight: 1})
	short := func(item Item) bool { return len(item.Question) < 40 }
	for _, item := range set.HeldOutItems(20, heldOutSeed, short) {
		require.Less(t, len(item.Question), 40)
	}
	require.Empty(t, set.HeldOutItems(20, heldOutSeed, func(Item) bool { return false }))
	require.Empty(t, set.HeldOutItems(0, heldOutSeed, anything))
}
