package heldout

// Asked is a kind of held-out questions: their task, and whether the node that answers draws questions of that task
// itself (nodes.tasks).
type Asked struct {
	Task string
	Own  bool
}

// Counts holds an evaluation's completions by kind of question.
type Counts map[Asked]count

type count struct{ completions, correct int }

// Add adds completions of a kind, and how many of them are right.
func (c Counts) Add(task string, own bool, completions, correct int) {
	n := c[Asked{task, own}]
	c[Asked{task, own}] = count{n.completions + completions, n.correct + correct}
}

// Share returns the share of right completions in the selected kinds. It is unknown without completions.
func (c Counts) Share(selected func(Asked) bool) (share float64, known bool) {
	var sum count
	for kind, n := range c {
		if selected(kind) {
			sum = count{sum.completions + n.completions, sum.correct + n.correct}
		}
	}
	return float64(sum.correct) / float64(max(1, sum.completions)), sum.completions > 0
}
