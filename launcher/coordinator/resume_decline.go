package coordinator

import (
	"os"
	"slices"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/launcher/supervise"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// DeclinedError reports that a service does not continue a run, which would end as before. A person can continue it.
type DeclinedError struct {
	Why  string
	Code int // exit code: systemd does not start the service again
}

func (d *DeclinedError) Error() string { return d.Why }

// fruitless is the number of attempts without a new round after which a service gives up a run.
const fruitless = 3

// decline returns why a service does not continue a run with this configuration, or nil.
func decline(s store.Snapshot, c configs.Config) *DeclinedError {
	switch {
	case s.Run.StoppedByAlarm() && c.OnAlarm == configs.AlarmStop:
		return &DeclinedError{s.Run.Message + ". The service does not continue it.", fail.ExitDone}
	case hopeless(s):
		return &DeclinedError{
			"all of its nodes gave up, and its newest " + units.Plural(fruitless, "attempt") +
				" recorded no round. The service does not try again before the next boot.",
			fail.ExitLost,
		}
	}
	return nil
}

// hopeless reports whether this host's nodes all gave up in a run's newest attempt, on this boot, and the newest
// attempts failed without a new round. A reboot may mend a GPU, so each boot has one more attempt.
func hopeless(s store.Snapshot) bool {
	first := len(s.Attempts) - fruitless
	self, err := supervise.Identify(os.Getpid())
	if first < 0 || err != nil || s.Run.BootID != self.Boot {
		return false
	}
	own := slices.DeleteFunc(slices.Clone(s.Nodes), func(n store.Node) bool { return n.Worker != "" })
	return len(own) > 0 &&
		!slices.ContainsFunc(own, func(n store.Node) bool { return n.State != event.StateGivenUp }) &&
		!slices.ContainsFunc(s.Attempts[first:], func(a store.Attempt) bool { return a.State != store.RunFailed }) &&
		!slices.ContainsFunc(s.Recent, func(r store.RoundReward) bool { return r.Time >= s.Attempts[first].Started })
}
