package wording

import (
	"fmt"

	"github.com/sapo-swarm/swarm/metrics/stats"
)

// Status says of a run whose coordinator has gone that nobody recorded why.
func Status(x *stats.Status) {
	if x.State == stats.StateCrashed {
		x.Message = fmt.Sprintf("the coordinator, process %d, ended without recording why", x.PID)
	}
}
