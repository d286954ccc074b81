package node

import (
	"os"
	"time"

	"github.com/sapo-swarm/swarm/internal/hostmem"
	"github.com/sapo-swarm/swarm/node/policy"
)

// sharingPart limits sampling to one part in so many of a core: the kernel walks the processes' page tables for it.
const sharingPart = 1000

// sharing samples by how much the resident memory of a node's processes is more than their proportional share. Between samples that is
// taken not to change: what an engine allocates is its own.
type sharing struct {
	ranks int       // processes that the engine has
	next  time.Time // no sample before
}

// sample tells the meter, where the kernel tells it and it is time.
func (s *sharing) sample(m *meter, now time.Time) {
	engine := m.process()
	if engine == 0 || now.Before(s.next) || !hostmem.Told() {
		return
	}
	began := time.Now()
	shared, ok := sharedBy(append(policy.Processes(engine), os.Getpid()), s.ranks+1)
	s.next = now.Add(sharingPart * time.Since(began))
	if ok {
		m.share(shared)
	}
}

// sharedBy is the sum over processes, false where there are fewer than expected, as of an engine that is starting or has ended.
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
