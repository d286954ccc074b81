package supervise

import (
	"strings"
	"syscall"
	"testing"

	"github.com/sapo-swarm/swarm/metrics/event"
)

func TestVerdict(t *testing.T) {
	told := func(cause string) *event.Event {
		return &event.Event{Type: event.TypeFailure, Cause: cause, Message: "so it said"}
	}
	tests := []struct {
		name  string
		exit  Exit
		state event.State
		cause string
		says  string
		heals bool
	}{
		{"all rounds", Exit{Loaded: true, State: event.StateDone}, event.StateDone, "", "", false},
		{"gone without a word", Exit{Loaded: true, State: event.StateUpdating}, event.StateFailed, event.CauseUnknown, "before it had done its rounds", true},
		{"done while being asked", Exit{Asked: true, State: event.StateDone}, event.StateDone, "", "", false},
		{"asked", Exit{Asked: true, Loaded: true}, event.StateStopped, event.CauseStopped, "request", false},
		{"asked in vain", Exit{Asked: true, Forced: true, Code: -1, Signal: syscall.SIGKILL}, event.StateFailed, event.CauseStopped, "not stop in time", false},
		{"failed while being asked", Exit{Asked: true, Code: 1, Failure: told(event.CauseDisk)}, event.StateFailed, event.CauseDisk, "so it said", false},
		{"stopped by another", Exit{Loaded: true, State: event.StateStopped}, event.StateFailed, event.CauseStopped, "another process", true},
		{"gone before loading", Exit{}, event.StateFailed, event.CauseUnknown, "before its model was loaded", true},
		{"our stall", Exit{Forced: true, Code: -1, Signal: syscall.SIGKILL, Cause: event.CauseStalled, Message: "silent"}, event.StateFailed, event.CauseStalled, "silent", true},
		{"its own account", Exit{Code: 1, Failure: told(event.CauseModel), Tail: "CUDA out of memory"}, event.StateFailed, event.CauseModel, "so it said", false},
		{"configuration", Exit{Code: 2, Tail: "unknown key foo\n"}, event.StateFailed, event.CauseConfig, "exit code 2: unknown key foo", false},
		{"memory by code", Exit{Code: 3}, event.StateFailed, event.CauseOutOfMemory, "exit code 3", true},
		{"host memory by code and log", Exit{Code: 3, Tail: "MemoryError\n"}, event.StateFailed, event.CauseHostOutOfMemory, "MemoryError", true},
		{"CUDA in the log", Exit{Code: 1, Tail: "x\ntorch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\nbye\n"}, event.StateFailed, event.CauseOutOfMemory, "Tried to allocate", true},
		{"cuBLAS in the log", Exit{Code: 1, Tail: "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling"}, event.StateFailed, event.CauseOutOfMemory, "CUBLAS", true},
		{"torch on a CPU", Exit{Code: 1, Tail: "RuntimeError: [enforce fail at alloc_cpu.cpp:66] DefaultCPUAllocator: can't allocate memory: you tried to allocate 400 bytes"}, event.StateFailed, event.CauseHostOutOfMemory, "DefaultCPUAllocator", true},
		{"Go's runtime out of memory", Exit{Code: 2, Tail: "fatal error: runtime: out of memory\n\ngoroutine 1 [running]:\n"}, event.StateFailed, event.CauseHostOutOfMemory, "runtime", true},
		{"a Go panic", Exit{Code: 2, Tail: "panic: index out of range\n\ngoroutine 1 [running]:\nmain.main()\n\t/a/b.go:3 +0x1\n"}, event.StateFailed, event.CauseUnknown, "panic: index out of range", true},
		{"the kernel's OOM killer", Exit{Code: -1, Signal: syscall.SIGKILL, KernelKills: 2}, event.StateFailed, event.CauseHostOutOfMemory, "by the kernel", true},
		{"a kernel that doesn't tell", Exit{Code: -1, Signal: syscall.SIGKILL, KernelKills: -1}, event.StateFailed, event.CauseHostOutOfMemory, "probably by the kernel", true},
		{"somebody's kill -9", Exit{Code: -1, Signal: syscall.SIGKILL}, event.StateFailed, event.CauseUnknown,
			"killed by signal 9 (killed), neither by swarm nor by the kernel's out-of-memory killer", true},
		{"another's death by the kernel", Exit{Code: 1, KernelKills: 1, Tail: "ValueError: what\n"}, event.StateFailed, event.CauseUnknown, "exit code 1", true},
		{"killed with memory in its log", Exit{Code: -1, Signal: syscall.SIGKILL, Tail: "MemoryError\n"}, event.StateFailed, event.CauseHostOutOfMemory, "MemoryError", true},
		{"a shell's word for it", Exit{Code: 137, Tail: "step 3\nKilled\n"}, event.StateFailed, event.CauseHostOutOfMemory, "Killed", true},
		{"a crash", Exit{Code: -1, Signal: syscall.SIGSEGV, Tail: "Segmentation fault"}, event.StateFailed, event.CauseUnknown, "segmentation fault", true},
		{"full disk", Exit{Code: 1, Tail: "OSError: [Errno 28] No space left on device\n"}, event.StateFailed, event.CauseDisk, "Errno 28", false},
		{"no torch", Exit{Code: 1, Tail: "ModuleNotFoundError: No module named 'torch'\n"}, event.StateFailed, event.CausePython, "torch", false},
		{"nothing known", Exit{Code: 1, Tail: "Traceback\nValueError: what\n"}, event.StateFailed, event.CauseUnknown, "exit code 1: ValueError: what", true},
		{"a long last line", Exit{Code: 1, Tail: strings.Repeat("é", 5000)}, event.StateFailed, event.CauseUnknown, "é…", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			v := tt.exit.Verdict()
			if v.State != tt.state || v.Cause != tt.cause || v.Heals != tt.heals || !strings.Contains(v.Message, tt.says) {
				t.Errorf("%+v", v)
			}
		})
	}
}
