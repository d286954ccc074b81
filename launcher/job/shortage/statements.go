package shortage

import (
	"slices"
	"strconv"
	"strings"
)

// statement is one kind of message about a memory shortage. The texts are from the programs' sources and from
// published logs. testdata has a sample of each.
type statement struct {
	kind   Kind
	onHost bool
	has    []string                     // every such line contains one of these; the search is faster than says
	says   *pattern                     // matches within one line
	unless string                       // a line with this text is not such a statement
	echoes FaultKind                    // soon after such a fault the statement is only its consequence
	read   func(said string, r *Report) // reads the numbers of the statement and its continuation lines
}

// start lets a statement follow the usual prefixes of an error, but not a word or a comment sign.
const start = `^[^\w#/]*(?:(?i:error|fatal|critical|exception|fatal error|[\w.]+error)\W+)*`

// behind matches the text after the bare words of a statement. "CUDA out of memory can be avoided" is not a
// statement.
const behind = `(?:$|[.!:;,]|["')]|(?: \(| error| -| on | at | in | while | when | during | trying))`

// statements are in order of precedence: the first match of a line counts.
var statements = []statement{
	{kind: TensorFlow, has: []string{"OOM when"}, says: lazy(`OOM when allocating tensor with shape`), read: readTensorFlow},
	// TensorFlow continues if it doesn't need the memory, and reports that.
	{kind: TensorFlow, has: []string{"Allocator ("}, says: lazy(`Allocator \(\w+\) ran out of memory trying to allocate`),
		unless: "this is not a failure", read: readTensorFlow},
	{kind: TensorFlow, has: []string{"ResourceExhaustedError: "},
		says: lazy(`ResourceExhaustedError: .{0,300}failed to allocate memory`), read: readTensorFlow},

	{kind: JAX, has: []string{"RESOURCE_EXHAUSTED: ", "Resource exhausted: "}, read: readXLA,
		says: lazy(`(?:RESOURCE_EXHAUSTED|Resource exhausted): .{0,200}?` +
			`(?i:out of memory|failed to allocate|attempting to (?:allocate|reserve))`)},
	{kind: JAX, has: []string{"Ran out of memory in"}, says: lazy(`Ran out of memory in memory space`), read: readXLA},

	{kind: HostAllocation, onHost: true, has: []string{"CPUAllocator: ", "posix_memalign("}, read: readCPUAllocator,
		says: lazy(`CPUAllocator: (?:can't allocate|not enough) memory|posix_memalign\(&data, gAlignment, nbytes\) == 0`)},
	{kind: Torch, has: []string{" out of memory"}, read: readTorch,
		says: lazy(`(?:CUDA|HIP|XPU|MPS backend) out of memory\b.{0,200}?Tried to allocate`)},
	{kind: Torch, has: []string{" out of memory"}, read: readTorch,
		says: lazy(`\b(?:[Rr]untimeError|OutOfMemoryError): (?:CUDA|HIP|XPU|MPS backend) out of memory`)},
	// torch's allocator queries NVML for the holders of the memory only after it has run out. It fails at that point
	// if NVML may not answer.
	{kind: Torch, has: []string{"NVML_SUCCESS == "}, read: readTorch,
		says: lazy(`NVML_SUCCESS == .{1,200}?INTERNAL ASSERT FAILED at .{1,500}?CUDACachingAllocator\.cpp`)},
	{kind: Torch, has: []string{"OutOfMemoryError"}, says: lazy(`^\s*torch\.(?:cuda\.)?OutOfMemoryError\s*$`), read: readTorch},

	{kind: HostKilled, onHost: true, has: []string{"node running low", "RayOutOfMemoryError: "}, read: readRay,
		says: lazy(`killed due to the node running low on memory|RayOutOfMemoryError: `)},
	{kind: HostKilled, onHost: true, has: []string{"memory pressure (OOM)"}, read: readRay,
		says: lazy(`(?i:workers .{0,40}killed due to memory pressure \(OOM\))`)},
	{kind: HostKilled, onHost: true, has: []string{"ut of memory: Kill"}, read: readKernel,
		says: lazy(`[Oo]ut of memory: Kill(?:ed)? process \d+`)},
	{kind: HostKilled, onHost: true, has: []string{"oom-kill", "oom_kill", "srun: error: ", "Exceeded ", "OOMKilled", "OOM killer"}, read: readKernel,
		says: lazy(`Detected \d+ oom[-_]kill events?|srun: error: .{1,80}: Out Of Memory|Exceeded (?:job|step) memory limit|` +
			`\bOOMKilled\b|killed by the OOM killer`)},

	{kind: CUDA, has: []string{"CUDA_ERROR_OUT", "cudaErrorMem", "_ALLOC"}, read: readCUDA,
		says: lazy(`\bCUDA_ERROR_OUT_OF_MEMORY\b|\bcudaErrorMemoryAllocation\b|` +
			`\b(?:CUBLAS|CUDNN|CUSOLVER|CUSPARSE|CURAND|CUFFT|CUTENSOR)_(?:STATUS_)?(?:ALLOC_FAILED|ALLOCATION_FAILED)\b`)},
	// Creating a handle allocates memory. The same status of a later call is a fault, and so is this status on a
	// failed device.
	{kind: CUDA, has: []string{"cublasCreate"}, says: lazy("CUBLAS_STATUS_NOT_INITIALIZED when calling `?cublasCreate\\b"), read: readCUDA,
		echoes: DeviceAssert},
	{kind: CUDA, has: []string{"out of memory"}, read: readCUDA,
		says: lazy(`(?i:cuda (?:runtime )?(?:error|failure)(?: ?\(?\d+\)?)? ?:? ?'?out of memory)|` +
			`cudaMalloc\w* failed: out of memory|CUDA failed with error out of memory|THCudaCheck FAIL .{0,200}out of memory`)},
	{kind: CUDA, has: []string{"CUDA error"}, says: lazy(`std::bad_alloc: .{0,40}CUDA error`), read: readCUDA},
	{kind: CUDA, has: []string{"OutOfMemoryError: ", "ResourceExhaustedError: "}, read: readCUDA,
		says: lazy(`cupy\.cuda\.memory\.OutOfMemoryError: |ResourceExhaustedError: .{0,40}Out of memory error on GPU`)},
	{kind: CUDA, has: []string{"out of memory at line "}, says: lazy(start + `out of memory at line \d+ in file`), read: readCUDA},
	{kind: CUDA, has: []string{"No available memory", "Free memory on"}, read: readVLLM,
		says: lazy(`No available memory for the cache blocks|Free memory on device .{0,80}less than desired GPU memory utilization`)},
	{kind: Torch, has: []string{"out of memory"}, read: readTorch,
		says: lazy(start + `(?:CUDA|GPU|HIP) (?:ran )?out of memory` + behind)},

	{kind: HostAllocation, onHost: true, has: []string{"MemoryError", "Unable to allocate"}, read: readHost,
		says: lazy(`^\s*(?:[\w.]+\.)?_?(?:Array)?MemoryError(?:$|: )|Unable to allocate ` + size + ` for an array`)},
	{kind: HostAllocation, onHost: true, has: []string{"std::bad_alloc", "std::length_error", "java.lang.OutOf"}, read: readHost,
		says: lazy(`std::bad_alloc\b|std::length_error: cannot allocate|java\.lang\.OutOfMemoryError`)},
	{kind: HostAllocation, onHost: true, has: []string{"[Errno 12]", "Cannot allocate memory", "runtime: out of"}, read: readHost,
		says: lazy(`\[Errno 12\]|\bCannot allocate memory\b|fatal error: runtime: out of memory`)},
	{kind: HostAllocation, onHost: true, has: []string{"out of shared memory"}, read: readHost,
		says: lazy(`workers are out of shared memory`)},
}

// find returns the statement in a line, and its offset in the line.
func find(said string) (s *statement, at int) {
	if comment(said) {
		return nil, 0
	}
	for i := range statements {
		s := &statements[i]
		if !containsAny(said, s.has) || (s.unless != "" && strings.Contains(said, s.unless)) {
			continue
		}
		if place := s.says.get().FindStringIndex(said); place != nil {
			return s, place[0]
		}
	}
	return nil, 0
}

func containsAny(text string, parts []string) bool {
	return slices.ContainsFunc(parts, func(p string) bool { return strings.Contains(text, p) })
}

// comment reports whether a line only quotes a message: "# avoids CUDA out of memory".
func comment(said string) bool {
	said = strings.TrimSpace(said)
	return strings.HasPrefix(said, "#") || strings.HasPrefix(said, "//")
}

// field is a number of a statement.
type field struct {
	to   func(*Report) *int64
	from *pattern // its first group is a size
}

func asked(r *Report) *int64     { return &r.Asked }
func free(r *Report) *int64      { return &r.Free }
func total(r *Report) *int64     { return &r.Total }
func allocated(r *Report) *int64 { return &r.Allocated }
func reserved(r *Report) *int64  { return &r.Reserved }
func inUse(r *Report) *int64     { return &r.InUse }

// first sets every field that is not yet set and has a match.
func first(said string, r *Report, parse func(string) int64, fields []field) {
	for _, f := range fields {
		if m := f.from.groups(said); m != nil && *f.to(r) == 0 {
			*f.to(r) = parse(m[1])
		}
	}
}

// device sets the GPU's number from the pattern if it is not yet set.
func device(said string, r *Report, pattern *pattern) {
	if m := pattern.groups(said); m != nil && r.GPU < 0 {
		if n, err := strconv.Atoi(m[1]); err == nil && n < 1<<16 {
			r.GPU = n
		}
	}
}
