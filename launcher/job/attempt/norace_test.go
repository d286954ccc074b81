//go:build !race

package attempt_test

const raced = false
