package wording

import (
	"fmt"

	"github.com/sapo-swarm/swarm/metrics/stats"
)

// Status sets the message of a crashed run: the coordinator ended without recording why.
func Status(x *stats.Status) {
	if x.State == stats.StateCrashed {
		x.Message = fmt.Sprintf("the coordinator, process %d, ended without recording why", x.PID)
	}
}
