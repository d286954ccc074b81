package task

import (
	"fmt"
	"slices"
	"strings"
)

// checkRange names key, value and what is allowed unless low <= value <= high.
func checkRange(key string, value, low, high int) error {
	if value < low || value > high {
		return fmt.Errorf("%s is %d: it must be from %d to %d", key, value, low, high)
	}
	return nil
}

// checkChoice names key, value and what is allowed unless value is one of allowed.
func checkChoice(key, value string, allowed ...string) error {
	if !slices.Contains(allowed, value) {
		return fmt.Errorf("%s is %q: it must be one of %s", key, value, strings.Join(allowed, ", "))
	}
	return nil
}
