package gpu

import "slices"

// Claim is the memory that one node reports holding on a device. Claims identify nodes by node id, because NVML's
// process list is unreliable: in a container it shows the host's pids, and it hides other users' memory.
type Claim struct {
	Node string
	PID  int   // of the engine, in its own pid namespace; 0: none
	Held int64 // bytes in the engine's allocator, without the CUDA context
	Peak int64 // highest Held so far
}

// Portion is the memory of one node on a device.
type Portion struct {
	Node    string
	Held    int64 // bytes, as claimed
	Context int64 // bytes of the node's process beyond Held: its CUDA context; 0 if the driver doesn't report it
}

// Attribution divides the memory in use on one device among the nodes.
type Attribution struct {
	Portions     []Portion
	Nodes        int64          // bytes in use by nodes: held and contexts
	Unattributed int64          // bytes in use by unknown processes, at least 0; -1: the memory in use is unknown
	Owners       map[int]string // node by pid, for processes that belong to nodes
}

// Attribute divides used bytes (-1: unknown) among the nodes with a claim. It matches processes with nodes only if
// the driver lists the pids of all nodes, each with at least the node's claim. Otherwise the pids are from another
// pid namespace, and equal numbers are a coincidence. A computing node holds more than it last reported, so the
// unattributed part varies with the phases. Strangers does not.
func Attribute(used int64, processes []Process, claims []Claim) Attribution {
	a := Attribution{Portions: make([]Portion, 0, len(claims)), Owners: map[int]string{}}
	sizes := map[int]int64{}
	for _, p := range processes {
		sizes[p.PID] = p.Used
	}
	ours := len(claims) > 0 && !slices.ContainsFunc(claims, func(c Claim) bool {
		size, listed := sizes[c.PID]
		return c.PID <= 0 || !listed || size >= 0 && size < c.Held
	})
	for _, c := range claims {
		p := Portion{Node: c.Node, Held: max(0, c.Held)}
		if ours {
			a.Owners[c.PID] = c.Node
			p.Context = max(0, sizes[c.PID]-p.Held)
		}
		a.Portions = append(a.Portions, p)
		a.Nodes += p.Held + p.Context
	}
	a.Unattributed = -1
	if used >= 0 {
		a.Unattributed = max(0, used-a.Nodes)
	}
	return a
}

// contextAllowance is the assumed size in bytes of a node's unknown CUDA context. PyTorch's context with cuBLAS takes
// about half a GB on an A100 or H100.
const contextAllowance = 600e6

// Strangers returns a lower bound in bytes of the memory that other processes use. It assumes that each node holds
// its highest amount so far plus a CUDA context.
func Strangers(used int64, claims []Claim) int64 {
	for _, c := range claims {
		used -= max(c.Held, c.Peak) + contextAllowance
	}
	return max(0, used)
}
