// Package launch runs one host's nodes: it loads them one at a time, keeps them alive, hands out the right to compute,
// and ends them in order. It owns the processes of `swarm node` through supervise, and knows them by argv, stdin,
// stdout and exit codes only: it imports configs and metrics/event, never node or metrics/store.
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

// deviceCPU is protocol.Start.Device of a node on no GPU.
const deviceCPU = "cpu"

// graceShared makes up for what a Sharer may take before a kill, so that a stop with one is over as soon as one
// without.
const graceShared = 14 * time.Second

// ErrLost says that some nodes were given up (exit code 4). Errors that wrap it are a *LostError.
var ErrLost = errors.New("nodes lost")

// Spec is a run on this host. Zero durations take the defaults.
type Spec struct {
	Run    string
	Exe    string           // the program that serves as a node
	Args   []string         // its arguments, such as "node"
	Env    []string         // added to this process's environment
	Files  []*os.File       // each node inherits them, the first as descriptor 3
	Starts []protocol.Start // one a node, in order of loading; Dir is its folder, which also gets log.txt and pid.json; Transient 0: the plan's
	Plan   fit.Plan         // Rooms share out leases, or Slots where there are none; Environment(i) goes to node i

	Restarts     supervise.Policy
	Crowded      supervise.Policy // of nodes whose GPU somebody else filled; 6 restarts, from 30 s to 5 min apart
	CutOff       supervise.Policy // of nodes that don't reach the exchange; 12 restarts, from 1 s to 5 min apart
	LoadTimeout  time.Duration    // of loading without a new state, a lease or the end of one; 10 min
	StallTimeout time.Duration    // without any event, once loaded: nodes send some every 10 s whatever they do; 2 min
	LeaseLimit   time.Duration    // a lease held for longer, while others wait, is warned of; 15 min
	StopLimit    time.Duration    // how long a node may be stopped (SIGSTOP) before it is continued; 0: supervise's
	Stop         supervise.Ladder // all in all at most 22 s by default, also with a Sharer
	CPUFallback  bool             // a node that its GPU can't hold goes on, on the CPU, instead of leaving the swarm

	// Others are the swarm's nodes on other hosts, and a channel that is closed when that changes; of this host's own
	// nodes among them only Absent counts. nil: there are none.
	Others func() (members []protocol.Member, changed <-chan struct{})

	Sharer       Sharer          // nil: GPUs are shared by the driver alone
	Faults       <-chan Fault    // nil, or closed: none are looked for
	FaultSettle  time.Duration   // how long after a death on a GPU its fault may still be announced; 3 s
	FaultTimeout time.Duration   // from a fault to its recovery; 2 min
	LogLimit     int64           // bytes of one node's log; 0: supervise's
	Now          <-chan struct{} // closed after the context has ended: kill instead of waiting for an orderly stop
}

// Sharer is a service through which nodes share a GPU, such as NVIDIA's MPS. Its methods are called from several
// goroutines, for nodes that run on a GPU only, and must return within seconds.
type Sharer interface {
	// ClientEnv is what the process of Spec.Starts[index] needs in its environment; it is asked before each of its
	// starts. budget is the GPU memory in bytes it may then take, 0 without a budget. A running client's limit can't be
	// changed, so that budgets that grow while a Sharer is set wait for the node's next start.
	ClientEnv(index int, budget int64) []string

	// BeforeKill is called before the first signal that may end a node within a kernel: a node's process and all its
	// descendants, of which some are clients. It makes the service let go of these; unknown pids are none of its
	// business. It returns within supervise.AnnounceLimit.
	BeforeKill(pids []int)
}

// Fault is trouble of a GPU, or of what shares it. The nodes there are ended at once and started one by one when it is
// over, from their last checkpoints; their deaths, also those up to Spec.FaultSettle before it, don't count as
// failures.
type Fault struct {
	GPU       int             // fit.GPU.Index; below 0: all GPUs
	Message   string          // one line for a person
	Recovered <-chan struct{} // closed when nodes may be started again; nil: at once. It may wait until all of them are gone
	Fatal     bool            // it will not be over: the nodes leave the swarm, or go on, on the CPU
}

// Result is what became of the nodes.
type Result struct {
	Nodes     []NodeResult
	Remaining int // nodes that were not given up
}

// NodeResult is the end of one node.
type NodeResult struct {
	Node     string
	State    event.State // done, stopped, failed (asked to stop, and did not) or given_up
	Cause    string      // one of event.Cause*; empty when done
	Message  string
	Restarts int
}

// LostError lists the nodes that were given up.
type LostError struct {
	GivenUp   []NodeResult
	Remaining int
}

// Error names the nodes by what ended them: nodes of one machine mostly share their trouble.
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

// OutOfMemory tells whether want of memory is what ended each of them.
func (e *LostError) OutOfMemory() bool {
	return !slices.ContainsFunc(e.GivenUp, func(n NodeResult) bool { return !outOfMemory(n.Cause) })
}

// Is makes errors.Is(err, ErrLost) true.
func (e *LostError) Is(target error) bool { return target == ErrLost }

func (s Spec) withDefaults() (Spec, error) {
	if s.Exe == "" || len(s.Starts) == 0 {
		return s, errors.New("launch: a program and at least one node are needed")
	}
	names := map[string]bool{}
	for _, start := range s.Starts {
		if start.Node == "" || start.Dir == "" || names[start.Node] {
			return s, fmt.Errorf("launch: node %q in %q: a name of its own and a folder are needed", start.Node, start.Dir)
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
