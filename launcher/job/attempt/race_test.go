//go:build race

package attempt_test

// raced reports that the race detector slows down every byte.
const raced = true
