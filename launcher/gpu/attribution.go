package gpu

import "slices"

// Claim is what one node says that it holds of a device. Nodes are known by their ids, never by what NVML calls their
// processes: in a container NVML shows the host's pids, to one user another's memory as "not told".
type Claim struct {
	Node string
	PID  int   // of the engine, as its own system numbers it; 0: none
	Held int64 // bytes by the engine's own allocator, which knows nothing of its CUDA context
	Peak int64 // highest that it ever held
}

// Portion is what one node takes of a device.
type Portion struct {
	Node    string
	Held    int64 // bytes, as claimed
	Context int64 // bytes beyond that in the node's process: its CUDA context; 0 where the driver doesn't tell
}

// Attribution divides the memory in use on one device.
type Attribution struct {
	Portions     []Portion
	Nodes        int64          // bytes in use by nodes: held and context
	Unattributed int64          // bytes in use by nobody we know, at least 0; -1: what is in use is not known
	Owners       map[int]string // node by pid, for the processes that are known to be nodes'
}

// Attribute divides used bytes, -1 where that isn't known, among those who claim a part. A process counts as a node's
// only when the driver lists the pids of all nodes, each with at least what its node claims: otherwise its pids are
// another system's, and one that looks familiar is chance. A node that is just computing holds more than it last said,
// so that the unattributed part breathes with the phases; Strangers is free of that.
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

// contextAllowance is taken for the CUDA context of a node whose own isn't known: PyTorch's with cuBLAS on an A100 or
// H100 is about half a GB.
const contextAllowance = 600e6

// Strangers is a lower bound of what others than the nodes have in use, in bytes: it lets every node hold as much as it
// ever held, and a CUDA context.
func Strangers(used int64, claims []Claim) int64 {
	for _, c := range claims {
		used -= max(c.Held, c.Peak) + contextAllowance
	}
	return max(0, used)
}
