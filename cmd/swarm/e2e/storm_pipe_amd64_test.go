//go:build linux && amd64

package e2e

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"strings"
	"syscall"
)

// canClosePipes returns nil: closeDescriptor works here.
func canClosePipes(*storm) error { return nil }

// closeDescriptor makes another process close one of its descriptors, because a pipe can't be closed from outside.
// Like a debugger, it runs close(fd) on the process's main thread, with the system call instruction in the process's
// own vdso.
func closeDescriptor(pid, fd int) error {
	instruction, err := systemCallInstruction(pid)
	if err != nil {
		return err
	}
	runtime.LockOSThread() // ptrace is per thread
	defer runtime.UnlockOSThread()
	if err := syscall.PtraceAttach(pid); err != nil {
		return fmt.Errorf("attach to %d: %w", pid, err)
	}
	defer syscall.PtraceDetach(pid)
	if err := awaitTrace(pid, syscall.SIGSTOP, syscall.PtraceCont); err != nil {
		return err
	}
	var before, after syscall.PtraceRegs
	if err := syscall.PtraceGetRegs(pid, &before); err != nil {
		return fmt.Errorf("registers of %d: %w", pid, err)
	}
	call := before
	call.Rip, call.Rax, call.Rdi = instruction, syscall.SYS_CLOSE, uint64(fd)
	call.Orig_rax = ^uint64(0) // don't restart an interrupted call here
	if err := syscall.PtraceSetRegs(pid, &call); err != nil {
		return fmt.Errorf("registers of %d: %w", pid, err)
	}
	if err := syscall.PtraceSingleStep(pid); err != nil {
		return fmt.Errorf("step %d: %w", pid, err)
	}
	step := func(pid, _ int) error { return syscall.PtraceSingleStep(pid) }
	if err := awaitTrace(pid, syscall.SIGTRAP, step); err != nil {
		return err
	}
	if err := syscall.PtraceGetRegs(pid, &after); err != nil {
		return fmt.Errorf("registers of %d: %w", pid, err)
	}
	if err := syscall.PtraceSetRegs(pid, &before); err != nil { // the interrupted call resumes as after any signal
		return fmt.Errorf("registers of %d: %w", pid, err)
	}
	if result := int64(after.Rax); result != 0 {
		return fmt.Errorf("close(%d) in %d: %w", fd, pid, syscall.Errno(-result))
	}
	return nil
}

// awaitTrace waits until a traced process stops for the wanted signal. It calls again to continue after other
// signals.
func awaitTrace(pid int, wanted syscall.Signal, again func(pid, signal int) error) error {
	for {
		var status syscall.WaitStatus
		if _, err := syscall.Wait4(pid, &status, syscall.WALL, nil); err != nil {
			return fmt.Errorf("wait for %d: %w", pid, err)
		}
		if !status.Stopped() {
			return fmt.Errorf("process %d is gone", pid)
		}
		if status.StopSignal() == wanted {
			return nil
		}
		if err := again(pid, int(status.StopSignal())); err != nil {
			return fmt.Errorf("go on with %d: %w", pid, err)
		}
	}
}

// systemCallInstruction finds a syscall instruction in a process's vdso.
func systemCallInstruction(pid int) (uint64, error) {
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(maps)) {
		var low, high uint64
		if !strings.HasSuffix(strings.TrimSpace(line), "[vdso]") {
			continue
		}
		if _, err := fmt.Sscanf(line, "%x-%x", &low, &high); err != nil {
			return 0, fmt.Errorf("maps of %d: %w", pid, err)
		}
		memory, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
		if err != nil {
			return 0, err
		}
		defer memory.Close()
		code := make([]byte, high-low)
		if _, err := memory.ReadAt(code, int64(low)); err != nil {
			return 0, fmt.Errorf("vdso of %d: %w", pid, err)
		}
		if at := bytes.Index(code, []byte{0x0f, 0x05}); at >= 0 {
			return low + uint64(at), nil
		}
	}
	return 0, fmt.Errorf("process %d has no vdso with a system call", pid)
}
