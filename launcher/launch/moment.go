package launch

import (
	"sync/atomic"
	"time"
)

// birth is when this process began to count.
var birth = time.Now()

// moment is an instant that no change of the wall clock moves, and after which a suspended machine doesn't count. It is
// safe for concurrent use; the zero moment has not come yet.
type moment struct{ nanoseconds atomic.Int64 }

func (m *moment) mark() { m.nanoseconds.Store(max(1, int64(time.Since(birth)))) }

func (m *moment) came() bool { return m.nanoseconds.Load() != 0 }

// since is the time since the moment; 0 before it has come.
func (m *moment) since() time.Duration {
	if !m.came() {
		return 0
	}
	return time.Since(birth) - time.Duration(m.nanoseconds.Load())
}
