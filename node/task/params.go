package task

import (
	"fmt"
	"slices"
	"strings"
)

// checkRange returns an error with key, value and the allowed range unless low <= value <= high.
func checkRange(key string, value, low, high int) error {
	if value < low || value > high {
		return fmt.Errorf("%s is %d: it must be from %d to %d", key, value, low, high)
	}
	return nil
}

// checkChoice returns an error with key, value and the allowed values unless value is one of allowed.
func checkChoice(key, value string, allowed ...string) error {
	if !slices.Contains(allowed, value) {
		return fmt.Errorf("%s is %q: it must be one of %s", key, value, strings.Join(allowed, ", "))
	}
	return nil
}
