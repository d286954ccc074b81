package task

import (
	"bytes"
	"crypto/sha256"
	"slices"
)

// heldOutTries is the number of items in a row without a new one for an evaluation after which a task counts as
// exhausted.
const heldOutTries = 2000

// HeldOutItems returns up to n allowed held-out items with different questions, grouped by task. From a mixture it
// takes one item of each task in turn, regardless of the weights. Each task thus has an equal share unless its
// parameters leave no more items. From a list of items it takes those with the smallest hash of their content, so
// that neither the list's order nor later additions affect the choice. Item number index of a task comes from
// seed(task, index), so that a task's items come in the same order in every mixture.
func (s *Set) HeldOutItems(n int, seed func(task string, index int) uint64, allowed func(Item) bool) []Item {
	if len(s.tasks) == 0 {
		return firstAllowed(s.heldOut, n, allowed)
	}
	parts := make([]heldOutPart, len(s.tasks))
	for found, got := 0, true; found < n && got; {
		got = false
		for i := range parts {
			if found < n && parts[i].grow(s.tasks[i], seed, allowed) {
				found, got = found+1, true
			}
		}
	}
	var list []Item
	for _, p := range parts {
		list = append(list, p.items...)
	}
	return list
}

// heldOutPart is one task's share of an evaluation.
type heldOutPart struct {
	items []Item
	index int // index of the next item
	over  bool
}

// grow adds an item, if the task has another.
func (p *heldOutPart) grow(t Task, seed func(task string, index int) uint64, allowed func(Item) bool) bool {
	for tries := 0; tries < heldOutTries && !p.over; tries++ {
		item := t.Item(int64(seed(t.Name(), p.index)>>1), 0) // the shift keeps seed and index within int64
		p.index++
		known := slices.ContainsFunc(p.items, func(other Item) bool { return other.Question == item.Question })
		if !known && HeldOut(item) && allowed(item) {
			p.items = append(p.items, item)
			return true
		}
	}
	p.over = true
	return false
}

func firstAllowed(items []Item, n int, allowed func(Item) bool) []Item {
	type hashed struct {
		sum  [sha256.Size]byte
		item Item
	}
	all := make([]hashed, len(items))
	for i, item := range items {
		all[i] = hashed{sha256.Sum256(contentKey(item)), item}
	}
	slices.SortStableFunc(all, func(a, b hashed) int { return bytes.Compare(a.sum[:], b.sum[:]) })
	var list []Item
	known := map[string]bool{}
	for _, h := range all {
		if len(list) < n && !known[h.item.Question] && allowed(h.item) {
			list = append(list, h.item)
			known[h.item.Question] = true
		}
	}
	return list
}
