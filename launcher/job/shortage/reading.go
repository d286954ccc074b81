package shortage

import (
	"fmt"

	"github.com/sapo-swarm/swarm/internal/units"
)

// Neighbours returns the other processes that hold the GPU's memory, as reported. Inside a container PyTorch does not
// recognize its own PID and lists itself among them. Neighbours then leaves out the process that best fits PyTorch's
// own figures.
func (r Report) Neighbours() []Holder {
	if r.Kind != Torch {
		return nil
	}
	own := -1
	if r.InUse == 0 {
		least := r.Allocated + r.Reserved
		for i, h := range r.Holders {
			// 0.98: the figures are rounded to two decimals.
			if float64(h.Bytes) >= 0.98*float64(least) && (own < 0 || h.Bytes < r.Holders[own].Bytes) {
				own = i
			}
		}
	}
	var others []Holder
	for i, h := range r.Holders {
		if i != own {
			others = append(others, h)
		}
	}
	return others
}

// Others returns the GPU memory that is neither free nor this process's, as far as the figures show. With PyTorch
// before 2.1 it includes this process's CUDA context. 0 means none, or unknown.
func (r Report) Others() int64 {
	if others := r.Neighbours(); len(others) > 0 {
		var sum int64
		for _, h := range others {
			sum += h.Bytes
		}
		return sum
	}
	own := max(r.InUse, r.Allocated+r.Reserved)
	if r.OnHost || r.Total == 0 || own == 0 || len(r.Holders) > 0 {
		return 0
	}
	return max(0, r.Total-r.Free-own)
}

// Crowded reports whether neighbors hold more of the GPU than this process. A smaller batch then helps little.
func (r Report) Crowded() bool {
	own := max(r.InUse, r.Allocated+r.Reserved)
	short := r.Asked == 0 || r.Free < r.Asked
	return short && r.Total > 0 && own <= r.Total && r.Others() > own && r.Others() > r.Total/4
}

// Need returns the GPU memory of the process including its failed request; 0: unknown. The process may need even more
// later.
func (r Report) Need() int64 {
	own := max(r.InUse, r.Allocated+r.Reserved)
	if own > r.Total && r.Total > 0 {
		own = max(0, r.Total-r.Free)
	}
	return own + r.Asked
}

// Fragmented reports whether the framework holds unused memory in pieces that are too small, as much as the request
// or a tenth of the GPU.
func (r Report) Fragmented() bool {
	if r.OnHost || r.Reserved == 0 {
		return false
	}
	return (r.Asked > 0 && r.Reserved >= r.Asked) || (r.Total > 0 && r.Reserved >= r.Total/10)
}

// Warnings describes inconsistent figures, one sentence each. Reports keep such figures as printed.
func (r Report) Warnings() []string {
	var list []string
	if r.Total > 0 && r.Allocated > r.Total {
		list = append(list, fmt.Sprintf("%s allocated exceeds the GPU's %s: either the figure includes memory on other devices or "+
			"swapped-out memory, or the message is misquoted; total and free are the driver's own figures", units.BytesOfTorch(r.Allocated), units.BytesOfTorch(r.Total)))
	}
	if r.Total > 0 && r.Free > r.Total {
		list = append(list, fmt.Sprintf("%s free exceeds the GPU's %s: the message is misquoted", units.BytesOfTorch(r.Free), units.BytesOfTorch(r.Total)))
	}
	if r.Asked > 0 && r.Free >= r.Asked {
		list = append(list, fmt.Sprintf("%s were free and only %s were requested: the process has its own limit (set_per_process_memory_fraction, MPS), "+
			"or no single free piece had that size", units.BytesOfTorch(r.Free), units.BytesOfTorch(r.Asked)))
	}
	if r.Total > 0 && r.Asked > r.Total {
		list = append(list, fmt.Sprintf("a single allocation of %s exceeds the GPU's total of %s: other processes and caches are not the cause",
			units.BytesOfTorch(r.Asked), units.BytesOfTorch(r.Total)))
	}
	return list
}
