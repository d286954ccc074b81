// Package launch runs one host's nodes. It loads them one at a time, keeps them running, grants leases to compute,
// and ends them cleanly. It owns the processes of `swarm node` through supervise, and depends only on their argv,
// stdin, stdout and exit codes. It must not import node or metrics/store.
package launch

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/launcher/fit"
	"github.com/sapo-swarm/swarm/launcher/supervise"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/node/protocol"
)

// deviceCPU is protocol.Start.Device for a node without a GPU.
const deviceCPU = "cpu"

// graceShared is a shorter grace that makes up for the time a Sharer may take before a kill, so that a stop with a
// Sharer is as short as one without.
const graceShared = 14 * time.Second

// ErrLost reports that some nodes were given up (exit code 4). Errors that wrap it are *LostError.
var ErrLost = errors.New("nodes lost")

// Spec describes a run on this host. Zero durations mean the defaults.
type Spec struct {
	Run   string
	Exe   string     // the program to run as a node
	Args  []string   // its arguments, such as "node"
	Env   []string   // added to this process's environment
	Files []*os.File // inherited by each node, starting with descriptor 3
	// one per node, in loading order. Dir also gets log.txt and pid.json. Transient 0: the plan's
	Starts []protocol.Start
	Plan   fit.Plan // leases are per pool in Rooms, or Slots without Rooms; node i gets Environment(i)

	Restarts supervise.Policy
	// for nodes whose GPU another process has filled; default: 6 restarts, from 30 s to 5 min apart
	Crowded supervise.Policy
	// for nodes that cannot reach the exchange; default: 12 restarts, from 1 s to 5 min apart
	CutOff       supervise.Policy
	LoadTimeout  time.Duration    // loading without progress (a new state, a lease or its return); default 10 min
	StallTimeout time.Duration    // no event after loading, although nodes send one at least every 10 s; default 2 min
	LeaseLimit   time.Duration    // warn about a lease held longer while others wait; default 15 min
	StopLimit    time.Duration    // suspension (SIGSTOP) of a node before it is continued; 0: supervise's default
	Stop         supervise.Ladder // by default at most 22 s in total, also with a Sharer
	CPUFallback  bool             // move a node that does not fit on its GPU to the CPU instead of giving it up

	// Others returns the swarm's nodes on other hosts, and a channel that is closed when they change. For this
	// host's own nodes in the list, only Absent and Ahead count. nil: no other hosts.
	Others func() (members []protocol.Member, changed <-chan struct{})

	// Verdicts returns the alarm's decisions about the learning rate, and a channel that is closed when they change.
	// Every node gets them at its start and after each change. nil: no decisions
	Verdicts func() (protocol.Verdicts, <-chan struct{})

	Sharer       Sharer        // nil: only the driver shares GPUs
	Faults       <-chan Fault  // nil or closed: no faults are reported
	FaultSettle  time.Duration // how long after a death on a GPU its fault may still be reported; default 3 s
	FaultTimeout time.Duration // from a fault to its recovery; default 2 min
	LogLimit     int64         // maximum bytes of a node's log; 0: supervise's default
	// close after the context has ended to kill nodes instead of waiting for an orderly stop
	Now <-chan struct{}
}

// Sharer is a service through which nodes share a GPU, such as NVIDIA's MPS. Its methods are called concurrently,
// only for nodes on a GPU, and must return within seconds.
type Sharer interface {
	// ClientEnv returns the environment variables for the process of Spec.Starts[index]. It is called before each
	// start. budget is the GPU memory in bytes that the process may use; 0: no budget. The limit of a running
	// client cannot change, so with a Sharer a grown budget takes effect at the node's next start.
	ClientEnv(index int, budget int64) []string

	// BeforeKill is called before the first signal that may end a node during a GPU kernel. pids are a node's
	// process and all its descendants, some of which are clients. The service must detach these and ignore unknown
	// pids. BeforeKill must return within supervise.AnnounceLimit.
	BeforeKill(pids []int)
}

// Fault is a fault of a GPU or of its Sharer. The nodes there are ended at once. After the fault they restart one
// by one from their last checkpoints. Their deaths do not count as failures, including deaths up to
// Spec.FaultSettle before the fault.
type Fault struct {
	GPU     int    // fit.GPU.Index; negative: all GPUs
	Message string // one line for people
	// closed when nodes may restart; nil: at once. The sender may first wait until all nodes have ended
	Recovered <-chan struct{}
	Fatal     bool // permanent: the nodes leave the swarm or continue on the CPU
}

// Result is the result for all nodes.
type Result struct {
	Nodes     []NodeResult
	Remaining int // nodes that were not given up
}

// NodeResult is the result for one node.
type NodeResult struct {
	Node     string
	State    event.State // done, stopped, failed (did not stop when told to) or given_up
	Cause    string      // one of event.Cause*; empty when done
	Message  string
	Restarts int
}

// LostError lists the nodes that were given up.
type LostError struct {
	GivenUp   []NodeResult
	Remaining int
}

// Error groups the nodes by reason, because nodes on one machine usually fail for the same reason.
func (e *LostError) Error() string {
	var reasons []string
	nodes := map[string][]string{}
	for _, n := range e.GivenUp {
		reason := n.Message
		if n.Cause != event.CauseUnknown || reason == "" {
			reason += " (" + n.Cause + ")"
		}
		if nodes[reason] == nil {
			reasons = append(reasons, reason)
		}
		nodes[reason] = append(nodes[reason], n.Node)
	}
	for i, reason := range reasons {
		if len(nodes[reason]) < len(e.GivenUp)+e.Remaining {
			reasons[i] = strings.Join(nodes[reason], ", ") + ": " + reason
		}
	}
	return fmt.Sprintf("%d of %s given up: %s", len(e.GivenUp), units.Plural(len(e.GivenUp)+e.Remaining, "node"), strings.Join(reasons, "; "))
}

// OutOfMemory reports whether lack of memory ended all of these nodes.
func (e *LostError) OutOfMemory() bool {
	return !slices.ContainsFunc(e.GivenUp, func(n NodeResult) bool { return !outOfMemory(n.Cause) })
}

// Is matches ErrLost.
func (e *LostError) Is(target error) bool { return target == ErrLost }

func (s Spec) withDefaults() (Spec, error) {
	if s.Exe == "" || len(s.Starts) == 0 {
		return s, errors.New("launch: a program and at least one node are needed")
	}
	names := map[string]bool{}
	for _, start := range s.Starts {
		if start.Node == "" || start.Dir == "" || names[start.Node] {
			return s, fmt.Errorf("launch: node %q in %q: a unique name and a folder are needed", start.Node, start.Dir)
		}
		names[start.Node] = true
	}
	if s.LoadTimeout <= 0 {
		s.LoadTimeout = 10 * time.Minute
	}
	if s.StallTimeout <= 0 {
		s.StallTimeout = 2 * time.Minute
	}
	if s.LeaseLimit <= 0 {
		s.LeaseLimit = 15 * time.Minute
	}
	if s.Stop.Grace <= 0 && s.Sharer != nil {
		s.Stop.Grace = graceShared
	}
	if s.Crowded == (supervise.Policy{}) && s.Restarts.MaxRestarts > 0 {
		s.Crowded = supervise.Policy{MaxRestarts: 6, First: 30 * time.Second, Cap: 5 * time.Minute}
	}
	if s.CutOff == (supervise.Policy{}) && s.Restarts.MaxRestarts > 0 {
		s.CutOff = supervise.Policy{MaxRestarts: 12, Cap: 5 * time.Minute}
	}
	if s.FaultSettle <= 0 {
		s.FaultSettle = 3 * time.Second
	}
	if s.FaultTimeout <= 0 {
		s.FaultTimeout = 2 * time.Minute
	}
	return s, nil
}
