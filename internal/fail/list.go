package fail

import (
	"fmt"
	"strings"
)

// mostListed is how many lines of a ListError are shown.
const mostListed = 5

// ListError is an error that is shown with one line for each item of a list below its own.
type ListError struct {
	What  string
	Items []string
}

// List returns a ListError.
func List(what string, items []string) error { return &ListError{what, items} }

// Error is all of it on one line.
func (e *ListError) Error() string { return e.What + ": " + strings.Join(e.Items, "; ") }

// lines are the list as it is shown: mostListed of its items, and how many more there are.
func (e *ListError) lines() []string {
	lines := e.Items
	if more := len(lines) - mostListed; more > 0 {
		lines = append(lines[:mostListed:mostListed], fmt.Sprintf("and %d more", more))
	}
	return lines
}

// Parted is the text of an error that ends in e without e's list. It is the whole text where it doesn't end so.
func (e *ListError) Parted(text string) (what string, lines []string) {
	before, found := strings.CutSuffix(text, e.Error())
	if !found {
		return text, nil
	}
	return before + e.What + ":", e.lines()
}
