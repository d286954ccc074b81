package supervise

import (
	"sync"
	"time"

	"github.com/sapo-swarm/swarm/internal/hostmem"
)

// remembered is how many looks a kill may lie before the end of the process that it met: a process with much memory
// takes its time to end.
const remembered = 15

// KillMeter tells whether the kernel's out-of-memory killer has struck of late.
type KillMeter struct {
	read func(age time.Duration) int64

	mu   sync.Mutex
	seen []int64 // counts at the last looks, the oldest first
}

// NewKillMeter has looked once.
func NewKillMeter() *KillMeter {
	return &KillMeter{read: host.oomKills, seen: []int64{host.oomKills(0)}}
}

// Look notes the count as it is now, or was a second ago: all children's looks share one reading.
func (k *KillMeter) Look() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.seen) == remembered {
		k.seen = append(k.seen[:0], k.seen[1:]...)
	}
	k.seen = append(k.seen, k.read(watchTick))
}

// Rise is how many kills there have been since the oldest look; -1 where the kernel doesn't tell.
func (k *KillMeter) Rise() int64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.read(0)
	if now < 0 || k.seen[0] < 0 {
		return -1
	}
	return now - k.seen[0]
}

// killCount is the newest reading of hostmem.OOMKills, which is dear.
type killCount struct {
	mu    sync.Mutex
	at    time.Time
	count int64
}

var host killCount

// oomKills is the count as it was at most age ago.
func (h *killCount) oomKills(age time.Duration) int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	if now := time.Now(); now.Sub(h.at) >= age {
		h.at, h.count = now, hostmem.OOMKills()
	}
	return h.count
}
