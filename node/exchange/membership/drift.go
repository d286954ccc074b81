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

// drift is how far a worker's clock is from the coordinator's. What arrives is older by its way, so that the least of
// several samples is the best one; a correction stays the same until it is wrong by more than the tolerance, so that it
// never reorders what one node told.
type drift struct {
	tolerance float64 // seconds: nearer than that a clock counts as right
	samples   [driftSamples]float64
	count     int
	offset    float64 // the coordinator's clock minus the worker's, applied
}

// folderSlack is how long a message through a synced folder may be under way without anybody's clock being wrong.
const folderSlack = 3 * time.Minute

// slack is how long messages may be under way. A folder's are under way for as long as its service likes.
func (r *AdmissionServer) slack() time.Duration {
	if r.o.Registry == nil {
		return folderSlack
	}
	return r.silence / 3
}

// newDrift is of messages that are under way for at most about slack.
func newDrift(slack time.Duration) drift {
	return drift{tolerance: max(minTolerance, slack).Seconds()}
}

// sample takes the worker's time in a message that has just arrived, in Unix seconds; 0: it said none. It returns true
// when the correction changed.
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

// correct returns a time of the worker's by the coordinator's clock. Nothing that has arrived happens later.
func (d *drift) correct(now, theirs float64) float64 { return min(theirs+d.offset, now) }
