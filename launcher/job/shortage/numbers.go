package shortage

import (
	"strconv"
	"strings"
)

// torchFields match PyTorch 1.0 to 2.9; "capacty" is the spelling of 2.1 and 2.2.
var (
	torchFields = []field{
		{asked, lazy(`Tried to allocate (` + size + `)`)},
		{total, lazy(`total capaci?ty of (` + size + `)`)},
		{total, lazy(`(` + size + `) total capacity`)},
		{free, lazy(`of which (` + size + `) is free`)},
		{free, lazy(`(` + size + `) free[;,)]`)},
		{allocated, lazy(`(` + size + `) already allocated`)},
		{allocated, lazy(`Of the allocated memory,? (` + size + `) is allocated by PyTorch`)},
		{reserved, lazy(`and (` + size + `) is reserved by PyTorch but unallocated`)},
		{inUse, lazy(`this process has (` + size + `) memory in use`)},
	}
	torchPool   = lazy(`(` + size + `) (?:reserved in total by PyTorch|cached)`)
	torchHolder = lazy(`Process (\d+) has (` + size + `) memory in use`)
	torchDevice = lazy(`GPU (\d+)(?:;| has)`)

	mpsFields = []field{
		{asked, lazy(`Tried to allocate (` + size + `)`)},
		{allocated, lazy(`MPS allocated: (` + size + `)`)},
		{total, lazy(`max allowed: (` + size + `)`)},
	}
)

func readTorch(said string, r *Report) {
	if strings.Contains(said, "MPS backend") {
		first(said, r, parseBinary, mpsFields)
		return
	}
	first(said, r, parseSize, torchFields)
	// Up to 2.0 PyTorch reports the whole pool, which includes the tensors.
	if m := torchPool.groups(said); m != nil && r.Reserved == 0 {
		r.Reserved = max(0, parseSize(m[1])-r.Allocated)
	}
	device(said, r, torchDevice)
	holders := r.Holders[:0]
	for _, m := range torchHolder.all(said, maxHolders) {
		if pid, err := strconv.Atoi(m[1]); err == nil {
			holders = append(holders, Holder{PID: pid, Bytes: parseSize(m[2])})
		}
	}
	if len(holders) > 0 {
		r.Holders = holders
	}
}

var (
	tensorShape     = lazy(`with shape ?\[([\d,]+)\] and type (\w+)`)
	tensorDevice    = lazy(`(?:/device:|/)(?i:GPU):(\d+)`)
	tensorAllocator = lazy(`Allocator \(GPU_(\d+)_`)
	tensorOnHost    = lazy(`(?i:device:cpu:|/cpu:)\d+|by allocator (?:mklcpu|cpu)`)
	tensorAsked     = []field{
		{asked, lazy(`rounded to (\d+)`)},
		{asked, lazy(`trying to allocate (` + size + `)`)},
	}
)

func readTensorFlow(said string, r *Report) {
	if m := tensorShape.groups(said); m != nil && r.Asked == 0 {
		r.Asked = tensorBytes(m[1], m[2])
	}
	first(said, r, parseBinary, tensorAsked)
	device(said, r, tensorDevice)
	device(said, r, tensorAllocator)
	if tensorOnHost.in(said) {
		r.OnHost = true
	}
}

var (
	xlaFields = []field{
		{asked, lazy(`(?:trying to allocate|allocating) (` + number + ` ?bytes)`)},
		{asked, lazy(`Failed to allocate request for [^(]{1,30}\((\d+)B\)`)},
		{asked, lazy(`(?:trying to allocate|allocating|Attempting to (?:allocate|reserve)|[Ff]ailed to allocate) (` + size + `)`)},
		{free, lazy(`There are (` + number + `\w+) free`)},
		{total, lazy(`Used ` + number + `\w+ of (` + number + `\w+) hbm`)},
		{inUse, lazy(`Used (` + number + `\w+) of ` + number + `\w+ hbm`)},
	}
	xlaDevice = lazy(`device ordinal (\d+)`)
)

func readXLA(said string, r *Report) {
	first(said, r, parseBinary, xlaFields)
	device(said, r, xlaDevice)
}

var cpuAllocatorFields = []field{{asked, lazy(`you tried to allocate (` + number + ` ?\w+)`)}}

func readCPUAllocator(said string, r *Report) { first(said, r, parseSize, cpuAllocatorFields) }

var (
	cudaFields = []field{
		{asked, lazy(`failed to allocate [^(]{1,30}\((` + number + ` bytes)\)`)},
		{asked, lazy(`Failed to CUDA (?:host )?(?:c|m)alloc\w* (` + size + `)`)},
		{asked, lazy(`(?i:out of memory) allocating (` + size + `)`)},
		{asked, lazy(`Cannot allocate (` + size + `) memory on GPU`)},
		{asked, lazy(`allocating (` + size + `) on device \d+`)},
	}
	cudaDevices = []*pattern{
		lazy(`:\d+:\d+ \[(\d+)\] .{0,100}NCCL WARN`),
		lazy(`allocating .{1,30} on device (\d+)`),
		lazy(`error on GPU (\d+)`),
	}
)

func readCUDA(said string, r *Report) {
	first(said, r, parseSize, cudaFields)
	for _, pattern := range cudaDevices {
		device(said, r, pattern)
	}
}

var (
	vllmFields = []field{
		{asked, lazy(`desired GPU memory utilization \([\d.]+, (` + size + `)\)`)},
		{total, lazy(`Free memory on device .{0,20}?\([\d.]+/(` + size + `)\)`)},
	}
	vllmFree   = lazy(`Free memory on device .{0,20}?\(([\d.]+)/[\d.]+( ?\w+)\)`)
	vllmDevice = lazy(`Free memory on device cuda:(\d+)`)
)

func readVLLM(said string, r *Report) {
	first(said, r, parseSize, vllmFields)
	if m := vllmFree.groups(said); m != nil && r.Free == 0 {
		r.Free = parseSize(m[1] + m[2])
	}
	device(said, r, vllmDevice)
}

var (
	rayFields = []field{
		{inUse, lazy(`memory used=(` + size + `)`)},
		{total, lazy(`was running was ` + number + ` ?\w+ / (` + size + `)`)},
		{total, lazy(`is used \(` + number + ` / (` + size + `)\)`)},
	}
	rayUsed = lazy(`was running was (` + size + `) / `)
	rayPID  = lazy(`\bpid=(\d+)`)
)

func readRay(said string, r *Report) {
	first(said, r, parseBinary, rayFields)
	if m := rayUsed.groups(said); m != nil && r.Free == 0 {
		r.Free = max(0, r.Total-parseBinary(m[1]))
	}
	if m := rayPID.groups(said); m != nil && r.InUse > 0 {
		if pid, err := strconv.Atoi(m[1]); err == nil {
			r.Holders = []Holder{{PID: pid, Bytes: r.InUse}}
		}
	}
}

var (
	kernelPID = lazy(`Kill(?:ed)? process (\d+)`)
	kernelRSS = lazy(`(?:anon|file|shmem)-rss:(\d+)kB`)
)

func readKernel(said string, r *Report) {
	pid := kernelPID.groups(said)
	if pid == nil || r.InUse > 0 {
		return
	}
	for _, m := range kernelRSS.all(said, 3) {
		r.InUse += parseBinary(m[1] + "kb")
	}
	if n, err := strconv.Atoi(pid[1]); err == nil && r.InUse > 0 {
		r.Holders = []Holder{{PID: n, Bytes: r.InUse}}
	}
}

var hostFields = []field{{asked, lazy(`Unable to allocate (` + size + `) for an array`)}}

func readHost(said string, r *Report) { first(said, r, parseSize, hostFields) }
