// Package e2e tests the whole program from outside: it starts it as users do, kills its processes, limits their
// memory, cuts their network, and checks the result. It needs the built program and Python with torch, and none of
// cmd/swarm's own code.
package e2e

import (
	"fmt"
	"os"
	"testing"

	"github.com/sapo-swarm/swarm/cmd/swarm/swarmtest"
	"github.com/sapo-swarm/swarm/internal/hermetic"
)

func TestMain(m *testing.M) {
	os.Exit(swarmtest.WithFixtures(func() int {
		if err := swarmtest.OnPath(raced); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return hermetic.Main(m)
	}))
}
