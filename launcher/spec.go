// Package launcher runs one host's nodes: it loads them one at a time, keeps them alive, hands out the right to compute, and ends
// them in order. It owns the processes of `swarm node` through supervise, and knows them by argv, stdin, stdout and exit codes only: it
// imports configs and metrics/event, never node or metrics/store.
package launcher

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/sapo-swarm/swarm/launcher/fit"
	"github.com/sapo-swarm/swarm/launcher/gpu"
	"github.com/sapo-swarm/swarm/launcher/supervise"
	"github.com/sapo-swarm/swarm/metrics/event"
)

// ErrLost says that some nodes were given up (exit code 4). Errors that wrap it are a *LostError.
var ErrLost = errors.New("nodes lost")

// Spec is a run on this host. Zero durations take the defaults.
type Spec struct {
	Run    string
	Exe    string        // the program that serves as a node
	Args   []string      // its arguments, such as "node"
	Env    []string      // added to this process's environment
	Starts []event.Start // one a node, in order of loading; Dir is the node's folder, which also gets log.txt and pid.json
	Plan   fit.Plan      // Slots leases at a time; Environment(i) goes to node i

	Restarts     supervise.Policy
	LoadTimeout  time.Duration // from start to loaded; 10 min
	StallTimeout time.Duration // without any event, once loaded; 15 min
	Stop         supervise.Ladder
	LogLimit     int64           // bytes of one node's log; 0: supervise's
	Now          <-chan struct{} // closed after the context has ended: kill instead of waiting for an orderly stop
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
		reason := fmt.Sprintf("%s (%s)", n.Message, n.Cause)
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
	return fmt.Sprintf("%d of %d nodes given up: %s", len(e.GivenUp), len(e.GivenUp)+e.Remaining, strings.Join(reasons, "; "))
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
		s.StallTimeout = 15 * time.Minute
	}
	return s, nil
}

// Describe fills the part of a plan's request that the host decides.
func Describe(host gpu.Host, r fit.Request) fit.Request {
	r.GPUs = nil
	for _, g := range host.GPUs {
		r.GPUs = append(r.GPUs, fit.GPU{
			Index: g.Index, UUID: g.UUID, Name: g.Name, MemoryTotal: g.MemoryTotal, MemoryFree: g.MemoryFree, MIG: g.MIG,
		})
	}
	r.NoGPU, r.Cores, r.Memory = host.Reason, host.Cores, host.MemoryAvailable
	return r
}
