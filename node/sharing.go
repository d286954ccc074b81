package node

import (
	"os"
	"runtime"
	"time"

	"github.com/sapo-swarm/swarm/internal/hostmem"
	"github.com/sapo-swarm/swarm/node/policy"
)

const (
	sharingPart  = 2000 // sampling takes at most one part in so many of a core: the kernel walks the processes' page tables for it
	earlySamples = 2    // but at first, while other engines are still starting and change what is shared
)

// sharing samples by how much the resident memory of a node's processes is more than their proportional share. Between
// samples that is taken not to change: what an engine allocates is its own.
type sharing struct {
	ranks int       // processes that the engine has
	taken int       // samples
	next  time.Time // no sample before
}

// sample tells the meter, where the kernel tells it and it is time.
func (s *sharing) sample(m *meter, now time.Time) {
	engine := m.process()
	if engine == 0 || now.Before(s.next) || !hostmem.Told() {
		return
	}
	runtime.LockOSThread() // whose clock says what it costs
	defer runtime.UnlockOSThread()
	began := hostmem.ThreadTime()
	shared, ok := sharedBy(append(policy.Processes(engine), os.Getpid()), s.ranks+1)
	if s.taken++; s.taken >= earlySamples {
		s.next = now.Add(sharingPart * (hostmem.ThreadTime() - began))
	}
	if ok {
		m.share(shared)
	}
}

// sharedBy is the sum over processes, false where there are fewer than expected, as of an engine that is starting or
// has ended.
func sharedBy(pids []int, expected int) (shared int64, ok bool) {
	for _, pid := range pids {
		use, err := hostmem.Of(pid)
		if err != nil {
			return 0, false
		}
		shared += use.Resident - use.Proportional
	}
	return shared, len(pids) >= expected
}
