package node

import (
	"os"
	"runtime"
	"time"

	"github.com/sapo-swarm/swarm/internal/hostmem"
	"github.com/sapo-swarm/swarm/node/policy"
)

const (
	sharingPart  = 2000 // sampling uses at most 1/2000 of a core, because each sample walks page tables in the kernel
	earlySamples = 2    // samples without that limit, while other engines still start and change what is shared
)

// sharing samples by how much the resident memory of a node's processes exceeds their proportional share. It
// assumes that this does not change between samples, because memory that an engine allocates later is its own.
type sharing struct {
	ranks int       // processes of the engine
	taken int       // number of samples
	next  time.Time // earliest time of the next sample
}

// sample updates the meter if a sample is due and the kernel reports the figures.
func (s *sharing) sample(m *meter, now time.Time) {
	engine := m.process()
	if engine == 0 || now.Before(s.next) || !hostmem.Told() {
		return
	}
	runtime.LockOSThread() // the thread's clock measures the cost
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

// sharedBy is the sum over processes of resident minus proportional memory. ok is false if there are fewer
// processes than expected: the engine is starting or has ended.
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
