package shortage

// Kind is the component that found that memory had run out.
type Kind string

// statements.go assigns failures to kinds.
const (
	Torch          Kind = "torch"           // PyTorch's allocator of GPU memory: CUDA, HIP, XPU, MPS
	JAX            Kind = "jax"             // XLA
	TensorFlow     Kind = "tensorflow"      // TensorFlow's allocator of GPU or host memory
	CUDA           Kind = "cuda"            // CUDA itself or a library above it: cuBLAS, cuDNN, NCCL, CuPy, vLLM, bitsandbytes
	HostAllocation Kind = "host_allocation" // the host refused: MemoryError, bad_alloc, DefaultCPUAllocator, a full /dev/shm
	HostKilled     Kind = "host_killed"     // the kernel, Slurm or Ray killed a process because of host memory
)

// Holder is a process that holds memory, as reported.
type Holder struct {
	PID   int   `json:"pid"`
	Bytes int64 `json:"bytes"`
}

// Report contains a program's output about a memory shortage. Sizes are in bytes, 0 if the output does not state
// them. Nothing is estimated, and impossible figures are kept as printed (see Warnings).
type Report struct {
	Kind      Kind     `json:"kind"`
	OnHost    bool     `json:"on_host"` // host memory, not a GPU's
	GPU       int      `json:"gpu"`     // in the program's numbering; -1: unknown
	Asked     int64    `json:"asked"`
	Free      int64    `json:"free"`
	Total     int64    `json:"total"`
	Allocated int64    `json:"allocated"`         // by tensors
	Reserved  int64    `json:"reserved"`          // held by the framework without a tensor
	InUse     int64    `json:"in_use"`            // by the whole process
	Holders   []Holder `json:"holders,omitempty"` // at most 64

	Line       string `json:"line"` // the message, shortened to 400 characters
	LineNumber int64  `json:"line_number"`
	Where      string `json:"where,omitempty"` // innermost traceback frame outside libraries: train.py:88 in training_step
	Times      int    `json:"times"`           // number of shortages in the output; this is the latest
}

// maxHolders bounds Report.Holders.
const maxHolders = 64

// fill copies from other the figures that r does not have.
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

// Fault is a failure with another cause than memory.
type Fault struct {
	Kind       FaultKind `json:"kind"`
	Line       string    `json:"line"` // shortened to 400 characters
	LineNumber int64     `json:"line_number"`
}

// FaultKind classifies faults by their remedies.
type FaultKind string

const (
	DeviceAssert  FaultKind = "device_assert"  // mostly an index out of range in a kernel
	IllegalAccess FaultKind = "illegal_access" // a bug in a kernel
	NoKernel      FaultKind = "no_kernel"      // PyTorch wasn't built for this GPU
	Driver        FaultKind = "driver"         // missing or old driver, or an unavailable GPU
	Hardware      FaultKind = "hardware"       // ECC, Xid, a GPU that fell off the bus
	NCCL          FaultKind = "nccl"           // communication between GPUs
	OtherCUDA     FaultKind = "cuda"           // another error of CUDA or its libraries
	Disk          FaultKind = "disk"           // no space left
	Signal        FaultKind = "signal"         // killed or crashed without a reason
	Exception     FaultKind = "exception"      // another Python exception
)
