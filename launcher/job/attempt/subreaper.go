package attempt

import (
	"fmt"
	"os"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/sapo-swarm/swarm/launcher/supervise"
)

// markVariable names the attempt in its processes' environment. A process keeps it after it loses its parent and its
// session.
const markVariable = "SWARM_ATTEMPT"

// attempts numbers the attempts of this process, for their marks.
var attempts atomic.Int64

// newMark returns a mark that is unique on this machine.
func newMark() (string, error) {
	id, err := supervise.Identify(os.Getpid())
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%d-%d-%d", id.PID, id.Start, attempts.Add(1)), nil
}

// subreaper makes this process the parent of its descendants' orphans while an attempt runs. The setting applies to
// the whole process but does not affect other children: a tree reaps only its own processes.
var subreaper struct {
	mu   sync.Mutex
	uses int
}

// adoptOrphans sets the subreaper until release is called. If the kernel refuses, orphans go to the init process, and
// the tree still finds them by their session.
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
