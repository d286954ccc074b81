//go:build !race

package e2e

// raced tells whether the race detector is on, for the tests and for the program.
const raced = false
