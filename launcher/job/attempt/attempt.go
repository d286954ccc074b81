// Package attempt runs one attempt of a training command: in a session of its own, its output passed on unchanged, to a
// log and through launcher/job/shortage, the memory of its whole process tree sampled, and nothing of it left running
// in the end. It takes argv and an environment; what the attempt is for, and whether there is another one, is the
// caller's. It imports launcher/job/shortage and launcher/supervise.
package attempt

import (
	"io"
	"os"
	"syscall"
	"time"

	"github.com/sapo-swarm/swarm/launcher/job/shortage"
)

// Spec is what to start.
type Spec struct {
	Path  string
	Args  []string // without the program's name
	Env   []string // whole environment; nil: ours
	Dir   string   // empty: ours
	Stdin *os.File // nil: nothing to read

	// Stdout and Stderr get the command's bytes as they come. A writer that blocks makes the command wait as it would
	// in a pipe; one that fails gets nothing more.
	Stdout, Stderr io.Writer
	// Together sends both to Stdout, through one pipe: in the order in which they were written.
	Together bool
	// Log gets both streams as they come, one Write at a time; nil: none. What it can't write is missing in it.
	Log io.Writer

	// Grace is how long the command has to end once it was told to, and what it leaves behind once it has ended; 0: 10
	// s.
	Grace time.Duration
	// Interval is that of sampling, which takes longer where it would cost more than half a percent of a core; 0: 1 s.
	Interval time.Duration
	// GPUMemory says how much GPU memory processes hold, false where nobody can tell; nil: nobody can. It must return
	// within bounded time.
	GPUMemory func(pids []int) (bytes int64, ok bool)
	// Sampled, if set, gets every sample. Like Warn it is called from a goroutine of the attempt, before Wait returns.
	Sampled func(Usage)
	// Warn, if set, gets lines for a person: about processes that were left behind, and output that could not be passed
	// on.
	Warn func(line string)
}

// Usage is what the process tree of a command uses.
type Usage struct {
	Time      time.Time `json:"time"`
	Processes int       `json:"processes"`
	// HostBytes is proportional: memory that processes share counts once (PSS), where Proportional says so; else the
	// sum of what each has resident, in which shared memory counts more than once.
	HostBytes    int64 `json:"host_bytes"`
	Proportional bool  `json:"proportional"`
	GPUBytes     int64 `json:"gpu_bytes"` // 0 where nobody can tell
}

// Outcome is everything known about an attempt that has ended.
type Outcome struct {
	ExitCode  int              // -1: ended by Signal
	Signal    syscall.Signal   // 0: none
	Seconds   float64          // from its start until all of it was gone
	Stopped   bool             // it was told to end, by Stop, Kill or Signal
	OOMKilled bool             // the kernel's out-of-memory killer ended it, or what it could not do without
	Shortage  *shortage.Report // memory ran out and that ended it; nil: not so
	Fault     *shortage.Fault  // it failed, and this is the last failure that its output tells of, memory aside
	Peak      Usage            // the largest of each
	Left      []int            // processes that outlived it and were ended
}

// Status is the exit code to pass on, by the custom of shells: 128 + n for signal n.
func (o Outcome) Status() int {
	if o.Signal != 0 {
		return 128 + int(o.Signal)
	}
	return o.ExitCode
}
