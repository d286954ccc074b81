package membership

import (
	"math"
	"time"

	"github.com/sapo-swarm/swarm/internal/units"
)

const (
	driftSamples = 8
	minTolerance = 2 * time.Second
)

// drift estimates the difference between a worker's clock and the coordinator's. A message's delay adds to each sample,
// so the smallest of several samples is the best. A correction stays the same until it is wrong by more than the
// tolerance. So corrections rarely change the order of a node's events.
type drift struct {
	tolerance float64 // seconds; a smaller difference counts as none
	samples   [driftSamples]float64
	count     int
	offset    float64 // the applied correction: the coordinator's clock minus the worker's
}

// folderSlack is the maximum expected delay of a message through a synced folder.
const folderSlack = 3 * time.Minute

// slack returns the maximum expected delay of messages. In a folder it depends on the sync service.
func (r *AdmissionServer) slack() time.Duration {
	if r.o.Registry == nil {
		return folderSlack
	}
	return r.silence / 3
}

// newDrift returns the drift for messages delayed by at most about slack.
func newDrift(slack time.Duration) drift {
	return drift{tolerance: max(minTolerance, slack).Seconds()}
}

// sample adds the worker's time from a message that has just arrived, in Unix seconds, 0 if the message has none. It
// returns true if the correction changed.
func (d *drift) sample(now, theirs float64) bool {
	if theirs <= 0 || !units.Finite(theirs) {
		return false
	}
	d.samples[d.count%driftSamples] = now - theirs
	d.count++
	least := math.Inf(1)
	for _, s := range d.samples[:min(d.count, driftSamples)] {
		least = min(least, s)
	}
	wanted := least
	if math.Abs(least) <= d.tolerance {
		wanted = 0
	}
	if math.Abs(wanted-d.offset) <= d.tolerance {
		return false
	}
	d.offset = wanted
	return true
}

// correct converts a worker's time to the coordinator's clock. The result is never later than now.
func (d *drift) correct(now, theirs float64) float64 { return min(theirs+d.offset, now) }
