package launch

import (
	"sync/atomic"
	"time"
)

// birth is the reference time of all moments.
var birth = time.Now()

// moment is a time that does not depend on the wall clock and does not include time in which the machine is
// suspended. It is safe for concurrent use. The zero value means that it has not come yet.
type moment struct{ nanoseconds atomic.Int64 }

func (m *moment) mark() { m.nanoseconds.Store(max(1, int64(time.Since(birth)))) }

func (m *moment) came() bool { return m.nanoseconds.Load() != 0 }

// since returns the time since the moment, or 0 before it has come.
func (m *moment) since() time.Duration {
	if !m.came() {
		return 0
	}
	return time.Since(birth) - time.Duration(m.nanoseconds.Load())
}
