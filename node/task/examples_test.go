package task

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/configs"
)

func TestSolution(t *testing.T) {
	text := func(s string) *string { return &s }
	cases := []struct {
		item Item
		want string
		ok   bool
	}{
		{Item{Answer: text("7")}, "7", true},
		{Item{Answer: text("")}, "", false},
		{Item{Metadata: []byte(`{"example_answer":"p"}`)}, "p", true},
		{Item{Metadata: []byte(`{}`)}, "", false},
		{Item{Metadata: []byte(`[`)}, "", false},
	}
	for _, c := range cases {
		got, ok := c.item.Solution()
		require.Equal(t, c.ok, ok)
		if ok {
			require.Equal(t, c.want, got)
		}
	}
}

func openExamples(t *testing.T, set string, n int) *Set {
	t.Helper()
	mixture, err := configs.TaskSet(set)
	require.NoError(t, err)
	opened, err := Open(configs.Tasks{Mixture: mixture, Examples: n})
	require.NoError(t, err)
	return opened
}

// Every task of both sets has examples: right answers in tags, never held out, never the question itself, and the same
// for a node with a part of the tasks.
func TestTurns(t *testing.T) {
	for _, name := range []string{"nano", "paper"} {
		set := openExamples(t, name, 3)
		again, part := openExamples(t, name, 3), set.Only([]string{"bf"})
		asked := map[string]bool{}
		for seed := range uint64(300) {
			item, err := set.Draw(seed)
			require.NoError(t, err)
			asked[item.Task()] = true
			turns := set.Turns(item)
			require.Len(t, turns, 7, item.Task())
			require.Equal(t, item.Question, turns[6])
			require.Equal(t, 1, times(turns, item.Question))
			require.Equal(t, turns, again.Turns(item))
			require.Equal(t, turns, part.Turns(item))

			// A question that is an example is asked after others.
			first := set.Turns(Item{Question: turns[0], Metadata: item.Metadata})
			require.Len(t, first, 7)
			require.Equal(t, 1, times(first, turns[0]))
		}
		require.Len(t, asked, 9)
		for task := range set.solved {
			for index := range int64(exampleTries) {
				item := set.scorers[task].Item(exampleSeed, index)
				if i := slices.IndexFunc(set.solved[task], func(e solved) bool { return e.question == item.Question }); i >= 0 {
					require.False(t, HeldOut(item))
					require.Equal(t, 1.0, set.Score(item, set.solved[task][i].answer), "%s: %s", task, set.solved[task][i].answer)
				}
			}
		}
		own := set.Turns(Item{Question: "What is 2 + 2?"})
		require.Len(t, own, 7, "a question of the user's own has examples, too")
	}
}

func times(turns []string, text string) (n int) {
	for _, turn := range turns {
		if turn == text {
			n++
		}
	}
	return n
}

// Without tasks.examples a prompt is the question alone, also of a set that could not be opened.
func TestTurnsWithoutExamples(t *testing.T) {
	item := Item{Question: "Why?"}
	require.Equal(t, []string{"Why?"}, openExamples(t, "nano", 0).Turns(item))
	require.Equal(t, []string{"Why?"}, (*Set)(nil).Turns(item))
}

// Examples of a file are its own training questions, each of the same task if the file has several.
func TestTurnsOfAFile(t *testing.T) {
	var items []Item
	for i := range 200 {
		answer := fmt.Sprint(i)
		items = append(items, Item{
			Question: "q" + answer, Answer: &answer, Metadata: fmt.Appendf(nil, `{"source_dataset":"mine%d","n":%d}`, i%2, i),
		})
	}
	set, err := NewFileSet(items)
	require.NoError(t, err)
	set.show(1)
	for seed := range uint64(100) {
		item, err := set.Draw(seed)
		require.NoError(t, err)
		turns := set.Turns(item)
		require.Len(t, turns, 3)
		i := slices.IndexFunc(items, func(other Item) bool { return other.Question == turns[0] })
		require.Equal(t, item.Task(), items[i].Task())
		require.Equal(t, "<answer>"+*items[i].Answer+"</answer>", turns[1])
		require.False(t, HeldOut(items[i]))
		require.NotEqual(t, item.Question, turns[0])
	}
}
