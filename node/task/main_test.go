package task

import (
	"os"
	"testing"

	"github.com/sapo-swarm/swarm/internal/hermetic"
)

func TestMain(m *testing.M) { os.Exit(hermetic.Main(m)) }
