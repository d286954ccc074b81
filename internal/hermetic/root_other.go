//go:build !linux

package hermetic

import "testing"

// Root skips the test: only Linux has user namespaces and the mounts of these tests.
func Root(t *testing.T) {
	t.Helper()
	t.Skip("needs Linux")
}
