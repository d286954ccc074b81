package attempt

import (
	"fmt"
	"os"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/sapo-swarm/swarm/launcher/supervise"
)

// markVariable names the attempt in the environment of its processes: whoever loses its parent and its session still
// has it.
const markVariable = "SWARM_ATTEMPT"

// attempts counts those of this process, for their marks.
var attempts atomic.Int64

// newMark is a mark that no other attempt on this machine has.
func newMark() (string, error) {
	id, err := supervise.Identify(os.Getpid())
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%d-%d-%d", id.PID, id.Start, attempts.Add(1)), nil
}

// subreaper makes this process the parent of what its descendants leave behind, for as long as an attempt runs. It is a
// property of the whole process, but touches nobody else's children: a tree reaps only processes that it knows for its
// own.
var subreaper struct {
	mu   sync.Mutex
	uses int
}

// adoptOrphans is undone by calling what it returns. Where the kernel refuses, orphans go to the init process, and are
// still found by their session.
func adoptOrphans() (release func()) {
	subreaper.mu.Lock()
	defer subreaper.mu.Unlock()
	if subreaper.uses == 0 {
		_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
	}
	subreaper.uses++
	return sync.OnceFunc(func() {
		subreaper.mu.Lock()
		defer subreaper.mu.Unlock()
		if subreaper.uses--; subreaper.uses == 0 {
			_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
		}
	})
}
