package main

import (
	"fmt"
	"strings"
)

// mostListed is how many lines of a listError are shown.
const mostListed = 5

// listError is an error that report prints with one line for each item of a list below its own.
type listError struct {
	what string
	list []string
}

// Error is all of it on one line.
func (e *listError) Error() string { return e.what + ": " + strings.Join(e.list, "; ") }

// lines are the list as it is shown: mostListed of its items, and how many more there are.
func (e *listError) lines() []string {
	lines := e.list
	if more := len(lines) - mostListed; more > 0 {
		lines = append(lines[:mostListed:mostListed], fmt.Sprintf("and %d more", more))
	}
	return lines
}

// parted is the text of an error that ends in e without e's list. It is the whole text where it doesn't end so.
func (e *listError) parted(text string) (what string, lines []string) {
	before, found := strings.CutSuffix(text, e.Error())
	if !found {
		return text, nil
	}
	return before + e.what + ":", e.lines()
}
