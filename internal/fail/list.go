package fail

import (
	"fmt"
	"strings"
)

// mostListed is the maximum number of items that a ListError shows.
const mostListed = 5

// ListError is an error with a list of items, shown one to a line below the error's own line.
type ListError struct {
	What  string
	Items []string
}

// List returns a ListError.
func List(what string, items []string) error { return &ListError{what, items} }

// Error returns the text and all items on one line.
func (e *ListError) Error() string { return e.What + ": " + strings.Join(e.Items, "; ") }

// lines returns the items to show: up to mostListed of them, then the number of items left out.
func (e *ListError) lines() []string {
	lines := e.Items
	if more := len(lines) - mostListed; more > 0 {
		lines = append(lines[:mostListed:mostListed], fmt.Sprintf("and %d more", more))
	}
	return lines
}

// Parted removes e's list from text that ends in e.Error(), and returns the list's lines separately. It returns
// other texts unchanged.
func (e *ListError) Parted(text string) (what string, lines []string) {
	before, found := strings.CutSuffix(text, e.Error())
	if !found {
		return text, nil
	}
	return before + e.What + ":", e.lines()
}
