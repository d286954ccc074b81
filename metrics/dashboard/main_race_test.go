//go:build race

package dashboard

import (
	"os"
	"testing"

	"github.com/sapo-swarm/swarm/internal/hermetic"
)

// TestMain runs the tests that need no browser. The others are built without the race detector, because a browser's
// requests meet nothing in the server that stream_test.go's do not.
func TestMain(m *testing.M) { os.Exit(hermetic.Main(m)) }
