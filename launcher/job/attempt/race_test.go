//go:build race

package attempt_test

// raced says that the race detector slows every byte down.
const raced = true
