package supervise

import (
	"fmt"
	"syscall"
	"time"

	"github.com/sapo-swarm/swarm/metrics/event"
)

const (
	watchTick = time.Second
	minTick   = 10 * time.Millisecond
)

// watch looks at the process until it ends: what it starts in other groups must not outlive it; what the kernel's
// out-of-memory killer does meanwhile tells how it died; and while it is stopped it can neither work nor notice that it
// should end. A stopped process is continued, and condemned where that doesn't help. Time is counted in looks, of which
// there are none while this program itself is stopped.
func (c *Child) watch(kills *KillMeter) {
	tick := min(watchTick, max(minTick, c.stopLimit/5))
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	most, stopped := max(1, int(c.stopLimit/tick)), 0
	for {
		select {
		case <-c.ended:
			return
		case <-ticker.C:
		}
		kills.Look()
		c.kin.look(c.PID())
		stat, err := ReadStat(c.PID())
		if err != nil || stat.State != 'T' && stat.State != 't' {
			stopped = 0
			continue
		}
		switch stopped++; stopped {
		case most:
			c.signal(syscall.SIGCONT)
			c.warn(fmt.Sprintf("process %d had been stopped for %s; continued", c.PID(), c.stopLimit))
		case 2 * most:
			c.Condemn(event.CauseStalled, fmt.Sprintf("process %d is stopped, and can't be continued", c.PID()))
		}
	}
}
