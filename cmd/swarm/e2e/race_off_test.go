//go:build !race

package e2e

// raced tells that the race detector looks, and then at the program, too.
const raced = false
