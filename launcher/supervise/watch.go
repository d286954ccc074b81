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

// watch checks the process every second until it ends. It records detached processes in other groups, which must not
// outlive the child, and kernel OOM kills, which help to classify the exit. It continues a suspended process, and
// condemns it if that does not help, because a suspended process can neither work nor stop. Time is counted in checks,
// so that it does not pass while this program itself is suspended.
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
		c.detached.look(c.PID())
		stat, err := ReadStat(c.PID())
		if err != nil || stat.State != 'T' && stat.State != 't' {
			stopped = 0
			continue
		}
		switch stopped++; stopped {
		case most:
			c.signal(syscall.SIGCONT)
			c.warn(fmt.Sprintf("process %d was suspended for %s; resumed it", c.PID(), c.stopLimit))
		case 2 * most:
			c.Condemn(event.CauseStalled, fmt.Sprintf("process %d is suspended and cannot be resumed", c.PID()))
		}
	}
}
