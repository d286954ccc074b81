// Package attempt runs one attempt of a training command in its own session. It passes the output on unchanged, and
// also to a log and to launcher/job/shortage. It samples the memory of the whole process tree and leaves no process
// running at the end. It accepts argv and an environment. The caller decides the purpose of the attempt, and whether
// to start another one. The package imports launcher/job/shortage and launcher/supervise.
package attempt

import (
	"io"
	"os"
	"syscall"
	"time"

	"github.com/sapo-swarm/swarm/launcher/job/shortage"
)

// Spec describes the command to start.
type Spec struct {
	Path  string
	Args  []string // without the program name
	Env   []string // whole environment; nil: this process's environment
	Dir   string   // empty: this process's directory
	Stdin *os.File // nil: no input

	// Stdout and Stderr receive the command's bytes at once. A writer that blocks makes the command wait, as a pipe
	// would. A writer that fails receives nothing more.
	Stdout, Stderr io.Writer
	// Together sends both streams to Stdout, through one pipe, in the order in which the command wrote them.
	Together bool
	// Log receives both streams at once, one Write at a time; nil: no log. The attempt ignores failures of Log.
	Log io.Writer

	// Grace is the time between the request to end and SIGKILL. After the command has ended, its remaining processes
	// get the same time. 0: 10 s.
	Grace time.Duration
	// Interval is the time between samples. It grows if sampling would cost more than half a percent of a core; 0: 1
	// s.
	Interval time.Duration
	// GPUMemory returns the GPU memory of processes, or false if it is unknown; nil: always unknown. It must return
	// within bounded time.
	GPUMemory func(pids []int) (bytes int64, ok bool)
	// Sampled, if set, receives every sample. Like Warn it is called from a goroutine of the attempt, before Wait
	// returns.
	Sampled func(Usage)
	// Warn, if set, receives messages for the user: about remaining processes, and about output that could not be
	// passed on.
	Warn func(line string)
}

// Usage is the resource usage of a command's process tree.
type Usage struct {
	Time      time.Time `json:"time"`
	Processes int       `json:"processes"`
	// HostBytes is proportional set size (PSS), which counts shared memory once, if Proportional is set. Else it is
	// the sum of resident sizes, which counts shared memory more than once.
	HostBytes    int64 `json:"host_bytes"`
	Proportional bool  `json:"proportional"`
	GPUBytes     int64 `json:"gpu_bytes"` // 0 if unknown
}

// Outcome describes an attempt that has ended.
type Outcome struct {
	ExitCode  int              // -1: ended by Signal
	Signal    syscall.Signal   // 0: none
	Seconds   float64          // from the start until all processes are gone
	Stopped   bool             // Stop, Kill or Signal told it to end
	OOMKilled bool             // the kernel's out-of-memory killer ended the command or a process that it needed
	Shortage  *shortage.Report // a memory shortage ended the attempt; nil: no shortage
	Fault     *shortage.Fault  // the last failure in the output of a failed attempt, except memory; nil: none
	Peak      Usage            // the maximum of each field
	Left      []int            // processes that outlived the command and that the attempt ended
}

// Status returns the exit code to pass on, by the convention of shells: 128 + n for signal n.
func (o Outcome) Status() int {
	if o.Signal != 0 {
		return 128 + int(o.Signal)
	}
	return o.ExitCode
}
