package charts_test

import (
	"os"
	"testing"

	"github.com/sapo-swarm/swarm/internal/chromium"
)

func TestMain(m *testing.M) { os.Exit(chromium.Main(m)) }
