//go:build !race

package dashboard

import (
	"os"
	"testing"

	"github.com/sapo-swarm/swarm/internal/chromium"
)

func TestMain(m *testing.M) { os.Exit(chromium.Main(m)) }
