package shortage

import "strings"

// faultText is a kind of message about another failure than memory.
type faultText struct {
	kind FaultKind
	has  []string // as in statement
	says *pattern
}

// faultTexts are in order of precedence.
var faultTexts = []faultText{
	{DeviceAssert, []string{"device-side assert", "CUDA_ERROR_ASSERT", ": block: ["},
		lazy(`device-side assert triggered|CUDA_ERROR_ASSERT|: block: \[\d+,\d+,\d+\], thread: \[\d+,\d+,\d+\] Assertion`)},
	{IllegalAccess, []string{"an illegal ", "CUDA_ERROR_ILL", "misaligned address", "unspecified launch"},
		lazy(`an illegal (?:memory access|instruction) was encountered|CUDA_ERROR_ILLEGAL_\w+|` +
			`CUDA error: (?:misaligned address|unspecified launch failure)`)},
	{NoKernel, []string{"no kernel image"}, lazy(`no kernel image is available`)},
	{Hardware, []string{"uncorrectable ", "NVRM: Xid", "off the bus", "CUDA_ERROR_ECC"},
		lazy(`uncorrectable (?:NVLink|ECC) error|NVRM: Xid|GPU has fallen off the bus|CUDA_ERROR_ECC_UNCORRECTABLE`)},
	{Driver, []string{"driver", "CUDA-capable", "NVML", "No CUDA GPUs", "invalid device ordinal"},
		lazy(`CUDA driver version is insufficient|Found no NVIDIA driver|NVIDIA driver on your system is too old|no CUDA-capable device|` +
			`CUDA-capable device\(s\) is/are busy|Failed to initialize NVML|CUDA driver initialization failed|No CUDA GPUs are available|` +
			`CUDA error: invalid device ordinal`)},
	{NCCL, []string{"NCCL", "nccl"},
		lazy(`NCCL error|\bnccl(?:Internal|System|Remote|InvalidUsage|UnhandledCuda)\w*Error|\bNCCL Error \d|` +
			`Watchdog caught collective operation timeout`)},
	{OtherCUDA, []string{"CUDA error: ", "CUDA_ERROR_", "cudaError", "_STATUS_"},
		lazy(`\bCUDA error: |\bCUDA_ERROR_[A-Z_]+|\bcudaError[A-Z]\w+|\b(?:CUBLAS|CUDNN|CUSOLVER|CUSPARSE|CUFFT)_STATUS_` +
			`(?:NOT_INITIALIZED|EXECUTION_FAILED|INTERNAL_ERROR|MAPPING_ERROR|ARCH_MISMATCH|NOT_SUPPORTED|INVALID_VALUE|BAD_PARAM)`)},
	{Disk, []string{"No space left", "quota exceeded"}, lazy(`No space left on device|Disk quota exceeded`)},
	{Signal, []string{"illed", "egmentation fault", "Bus error", "Aborted", "Illegal ins", "Floating p", "return code = -", "Fatal Python"},
		lazy(`^\s*(?:Killed|Segmentation fault|Bus error|Aborted|Illegal instruction|Floating point exception)(?: \(core dumped\))?\s*$|` +
			`line \d+: +\d+ (?:Killed|Segmentation fault|Bus error|Aborted)\b|[kK]illed by signal:? |exits with return code = -\d+|Fatal Python error: `)},
}

// exception matches the last line of a traceback.
var exception = lazy(`^[A-Za-z_][\w.]*(?:Error|Exception|Exit|Interrupt|Iteration|Timeout)(?:: |$)`)

// echo matches exceptions about another process's end. Launchers, Ray and data loaders raise them after the original
// failure.
var echo = lazy(`\b(?:ChildFailedError|CalledProcessError|RayTaskError|ActorDiedError|RayActorError|WorkerCrashedError|` +
	`WorkerProcDiedError|ProcessExitedException|ProcessRaisedException|SignalException|BrokenPipeError|` +
	`ConnectionResetError|EOFError|EngineDeadError)\b|` +
	`exited unexpectedly|Engine core (?:initialization|proc) |returned non-zero exit status|BrokenProcessPool`)

// findFault returns the kind of failure in a line, or "".
func findFault(said string) FaultKind {
	if comment(said) {
		return ""
	}
	for _, f := range faultTexts {
		if containsAny(said, f.has) && f.says.in(said) {
			return f.kind
		}
	}
	return ""
}

// chains reports whether a line is Python's text between an exception and its consequence.
func chains(said string) bool {
	return strings.HasPrefix(said, "During handling of the above exception") ||
		strings.HasPrefix(said, "The above exception was the direct cause")
}
