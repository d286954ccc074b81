package shortage

// Kind says who found that memory had run out.
type Kind string

// Which failure is of which kind is in statements.go.
const (
	Torch          Kind = "torch"           // PyTorch's allocator of GPU memory: CUDA, HIP, XPU, MPS
	JAX            Kind = "jax"             // XLA
	TensorFlow     Kind = "tensorflow"      // TensorFlow's allocator, of a GPU's memory or the host's
	CUDA           Kind = "cuda"            // CUDA itself or a library over it: cuBLAS, cuDNN, NCCL, CuPy, vLLM, bitsandbytes
	HostAllocation Kind = "host_allocation" // the host refused: MemoryError, bad_alloc, DefaultCPUAllocator, a full /dev/shm
	HostKilled     Kind = "host_killed"     // somebody killed a process for the host's memory: the kernel, Slurm, Ray
)

// Holder is a process that was said to hold memory.
type Holder struct {
	PID   int   `json:"pid"`
	Bytes int64 `json:"bytes"`
}

// Report is what a program's output says about memory that ran out. Sizes are bytes, 0 where the output does not tell
// them; nothing is estimated, and what can't be true is kept as it was said (see Warnings).
type Report struct {
	Kind      Kind     `json:"kind"`
	OnHost    bool     `json:"on_host"` // it was the host's memory, not a GPU's
	GPU       int      `json:"gpu"`     // as the program numbers them; -1: not told
	Asked     int64    `json:"asked"`
	Free      int64    `json:"free"`
	Total     int64    `json:"total"`
	Allocated int64    `json:"allocated"`         // by tensors
	Reserved  int64    `json:"reserved"`          // by the framework beyond that: held, in pieces that no tensor uses
	InUse     int64    `json:"in_use"`            // by the process as a whole
	Holders   []Holder `json:"holders,omitempty"` // at most 64

	Line       string `json:"line"` // what it said, shortened to 400 characters
	LineNumber int64  `json:"line_number"`
	Where      string `json:"where,omitempty"` // the innermost frame of the traceback that is no library's: train.py:88 in training_step
	Times      int    `json:"times"`           // how often the output says that memory ran out; this is the latest
}

// maxHolders bounds Report.Holders.
const maxHolders = 64

// fill takes from other what r does not tell.
func (r *Report) fill(other Report) {
	for _, f := range []struct{ to, from *int64 }{
		{&r.Asked, &other.Asked}, {&r.Free, &other.Free}, {&r.Total, &other.Total}, {&r.Allocated, &other.Allocated},
		{&r.Reserved, &other.Reserved}, {&r.InUse, &other.InUse},
	} {
		if *f.to == 0 {
			*f.to = *f.from
		}
	}
	if r.GPU < 0 {
		r.GPU = other.GPU
	}
	if r.Where == "" {
		r.Where = other.Where
	}
	if len(r.Holders) < len(other.Holders) {
		r.Holders = other.Holders
	}
}

// Fault is a failure that memory did not cause.
type Fault struct {
	Kind       FaultKind `json:"kind"`
	Line       string    `json:"line"` // shortened to 400 characters
	LineNumber int64     `json:"line_number"`
}

// FaultKind sorts faults by what can be done about them.
type FaultKind string

const (
	DeviceAssert  FaultKind = "device_assert"  // an index out of range in a kernel, mostly
	IllegalAccess FaultKind = "illegal_access" // a kernel's bug
	NoKernel      FaultKind = "no_kernel"      // PyTorch wasn't built for this GPU
	Driver        FaultKind = "driver"         // no driver, too old a one, or a GPU that can't be had
	Hardware      FaultKind = "hardware"       // ECC, Xid, a GPU that fell off the bus
	NCCL          FaultKind = "nccl"           // the exchange between GPUs
	OtherCUDA     FaultKind = "cuda"           // another error of CUDA or its libraries
	Disk          FaultKind = "disk"           // no space left
	Signal        FaultKind = "signal"         // killed or crashed, and nobody said why
	Exception     FaultKind = "exception"      // another Python exception
)
