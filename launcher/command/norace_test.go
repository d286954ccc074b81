//go:build !race

package command_test

const raced = false
