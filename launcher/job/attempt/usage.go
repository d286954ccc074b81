package attempt

import (
	"errors"
	"io/fs"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/sapo-swarm/swarm/internal/hostmem"
	"github.com/sapo-swarm/swarm/launcher/supervise"
)

const (
	defaultInterval = time.Second
	firstSample     = 50 * time.Millisecond // each later pause is twice as long, up to the interval
	killLooks       = time.Second
	// Sampling uses at most 1/sampleShare of a core. Its proportional part, which walks the page tables of processes,
	// uses at most half of that.
	sampleShare       = 200
	proportionalShare = 400
)

// meter samples the resource usage of a tree.
type meter struct {
	tree     *tree
	kills    *supervise.KillMeter
	interval time.Duration
	gpu      func([]int) (int64, bool)
	sampled  func(Usage)

	killsAt, exactAt time.Time // last look for kills; earliest next proportional pass

	mu   sync.Mutex
	peak Usage
}

func newMeter(spec Spec, t *tree, kills *supervise.KillMeter) *meter {
	m := &meter{tree: t, kills: kills, interval: spec.Interval, gpu: spec.GPUMemory, sampled: spec.Sampled}
	if m.interval <= 0 {
		m.interval = defaultInterval
	}
	return m
}

// run samples until gone is closed. It keeps its thread, because the thread's clock measures the cost of sampling.
func (m *meter) run(gone <-chan struct{}) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	pause := min(firstSample, m.interval)
	timer := time.NewTimer(pause)
	defer timer.Stop()
	for {
		select {
		case <-gone:
			return
		case <-timer.C:
		}
		began := hostmem.ThreadTime()
		m.sample(time.Now())
		pause = min(2*pause, m.interval)
		timer.Reset(max(pause, sampleShare*(hostmem.ThreadTime()-began)))
	}
}

func (m *meter) sample(now time.Time) {
	if now.Sub(m.killsAt) >= killLooks {
		m.kills.Look()
		m.killsAt = now
	}
	m.tree.look()
	exact := false
	if !now.Before(m.exactAt) {
		began := hostmem.ThreadTime()
		m.tree.measure()
		m.exactAt = now.Add(proportionalShare * (hostmem.ThreadTime() - began))
		exact = true
	}
	u := Usage{Time: now, Proportional: true}
	members := m.tree.running()
	for _, member := range members {
		u.Processes++
		if member.share > 0 {
			u.HostBytes += int64(float64(member.Resident) * member.share)
			continue
		}
		u.HostBytes += member.Resident
		u.Proportional = u.Proportional && member.Resident == 0
	}
	if m.gpu != nil && len(members) > 0 {
		if bytes, ok := m.gpu(pids(members)); ok {
			u.GPUBytes = bytes
		}
	}
	m.raise(u, exact)
	if m.sampled != nil {
		m.sampled(u)
	}
}

// raise adds a sample to the peak. Host memory counts only if it was measured proportionally. Just after a fork the
// child has all of its parent's pages resident.
func (m *meter) raise(u Usage, exact bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.peak.Processes = max(m.peak.Processes, u.Processes)
	if exact && u.HostBytes > m.peak.HostBytes {
		m.peak.HostBytes, m.peak.Proportional, m.peak.Time = u.HostBytes, u.Proportional, u.Time
	}
	m.peak.GPUBytes = max(m.peak.GPUBytes, u.GPUBytes)
}

// atMost returns the maximum of each field. The kernel's own record of the largest process counts if it exceeds all
// samples, as for a command that ran shorter than an interval. That record starts at this process's size at the fork.
func (m *meter) atMost(usage any) Usage {
	m.mu.Lock()
	defer m.mu.Unlock()
	theirs, ok := usage.(*syscall.Rusage)
	var ours syscall.Rusage
	if !ok || syscall.Getrusage(syscall.RUSAGE_SELF, &ours) != nil || theirs.Maxrss <= ours.Maxrss {
		return m.peak
	}
	if largest := theirs.Maxrss << 10; largest > m.peak.HostBytes {
		m.peak.HostBytes, m.peak.Proportional = largest, false
	}
	return m.peak
}

// measure updates each member's proportional share of its resident memory.
func (t *tree) measure() {
	for _, m := range t.running() {
		share, resident := 0.0, m.Resident
		switch use, err := hostmem.Of(m.id.PID); {
		case err == nil && resident > 0:
			share = min(1, float64(use.Proportional)/float64(resident))
		case err != nil && hostmem.Told() && !errors.Is(err, fs.ErrPermission):
			resident = 0 // the process is ending
		}
		t.mu.Lock()
		if now, ok := t.members[m.id.PID]; ok && now.Start == m.Start {
			now.share, now.Resident = share, resident
			t.members[m.id.PID] = now
		}
		t.mu.Unlock()
	}
}
