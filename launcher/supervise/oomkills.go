package supervise

import (
	"sync"
	"time"

	"github.com/sapo-swarm/swarm/internal/hostmem"
)

// remembered is the number of looks for which a kill counts. A process with much memory ends some time after the
// kernel has killed it.
const remembered = 15

// KillMeter reports whether the kernel's out-of-memory killer has recently killed a process.
type KillMeter struct {
	read func(age time.Duration) int64

	mu   sync.Mutex
	seen []int64 // counts at the last looks, oldest first
}

// NewKillMeter returns a KillMeter that has looked once.
func NewKillMeter() *KillMeter {
	return &KillMeter{read: host.oomKills, seen: []int64{host.oomKills(0)}}
}

// Look records the current count, at most a second old, so that all children share one reading.
func (k *KillMeter) Look() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.seen) == remembered {
		k.seen = append(k.seen[:0], k.seen[1:]...)
	}
	k.seen = append(k.seen, k.read(watchTick))
}

// Rise returns the number of kills since the oldest look, or -1 if the kernel does not report it.
func (k *KillMeter) Rise() int64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.read(0)
	if now < 0 || k.seen[0] < 0 {
		return -1
	}
	return now - k.seen[0]
}

// killCount caches hostmem.OOMKills, which is expensive.
type killCount struct {
	mu    sync.Mutex
	at    time.Time
	count int64
}

var host killCount

// oomKills returns the count, at most age old.
func (h *killCount) oomKills(age time.Duration) int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	if now := time.Now(); now.Sub(h.at) >= age {
		h.at, h.count = now, hostmem.OOMKills()
	}
	return h.count
}
