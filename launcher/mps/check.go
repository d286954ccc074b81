package mps

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"github.com/sapo-swarm/swarm/launcher/gpu"
)

// ErrUnavailable reports that MPS is missing here or does not work (exit code 3). Errors that wrap it are one line
// with a remedy.
var ErrUnavailable = errors.New("MPS is not available")

func unavailable(format string, args ...any) error {
	return fmt.Errorf("%w: %s. Try: --share lease", ErrUnavailable, fmt.Sprintf(format, args...))
}

// GPU is a card that nodes will share.
type GPU struct {
	Index        int    // fit.GPU.Index
	UUID         string // CUDA's name of the GPU, GPU-...
	Name         string
	ComputeMajor int // of its compute capability; 0: unknown
	ComputeMode  int // 0, or one of gpu.Mode*; under EXCLUSIVE_PROCESS the MPS server is the one process
	MIG          bool
	Clients      int   // nodes on it
	MemoryFree   int64 // bytes, by NVML, shortly before Open: the proof needs some of it
}

// Need describes a run's requirements on MPS.
type Need struct {
	GPUs        []GPU
	GPUsPerNode int
	Program     string // path of the control daemon; empty: Program on PATH
}

// DefaultPipe is the directory where the CUDA driver looks for a daemon if its environment names none. Tests change it.
var DefaultPipe = "/tmp/nvidia-mps"

// Occupied returns a warning if a daemon at DefaultPipe may be the one process of a GPU in compute mode
// EXCLUSIVE_PROCESS. It returns "" otherwise.
func (g GPU) Occupied() string {
	if g.ComputeMode != gpu.ModeExclusiveProcess || os.Getenv(pipeVariable) != "" {
		return ""
	}
	conn, err := net.Dial("unix", filepath.Join(DefaultPipe, "control"))
	if err == nil {
		conn.Close()
	} else if !errors.Is(err, syscall.EPROTOTYPE) { // which tells of a daemon: its socket has another type
		return ""
	}
	return fmt.Sprintf("GPU %d is in compute mode EXCLUSIVE_PROCESS, and the MPS daemon of %s may occupy it: nodes may not start. "+
		"Try: end that daemon as its user (echo quit | %s), or sudo nvidia-smi -i %d -c DEFAULT", g.Index, DefaultPipe, Program, g.Index)
}

// Check reports whether MPS can be used, as far as this is visible before MPS starts. It returns nil or an error that
// wraps ErrUnavailable.
func Check(n Need) error {
	_, err := n.check(runtime.GOOS, os.Getenv)
	return err
}

// check also returns the control program's path.
func (n Need) check(system string, getenv func(string) string) (string, error) {
	if system != "linux" {
		return "", unavailable("it runs on Linux only, not on %s", system)
	}
	if len(n.GPUs) == 0 {
		return "", unavailable("no node is on a GPU")
	}
	if n.GPUsPerNode > 1 {
		return "", unavailable("gpus_per_node is %d, but an MPS client may use only one GPU", n.GPUsPerNode)
	}
	for _, g := range n.GPUs {
		if err := g.check(); err != nil {
			return "", err
		}
	}
	if pipe := getenv(pipeVariable); pipe != "" {
		return "", unavailable("this shell is already a client of another MPS daemon (%s=%s); unset it first", pipeVariable, pipe)
	}
	program := n.Program
	if program == "" {
		program = Program
	}
	path, err := exec.LookPath(program)
	if err != nil {
		return "", unavailable("%s, a part of NVIDIA's driver (Debian: nvidia-cuda-mps, Ubuntu: nvidia-compute-utils), is not installed", program)
	}
	return path, nil
}

func (g GPU) check() error {
	switch {
	case g.MIG:
		return unavailable("GPU %d (%s) is in MIG mode", g.Index, g.Name)
	case g.ComputeMajor > 0 && g.ComputeMajor < 7:
		return unavailable("GPU %d (%s) has compute capability %d; limits for each client came with 7.0 (Volta)", g.Index, g.Name, g.ComputeMajor)
	case g.ComputeMode == gpu.ModeProhibited:
		return unavailable("GPU %d (%s) is in compute mode PROHIBITED; sudo nvidia-smi -i %d -c DEFAULT opens it", g.Index, g.Name, g.Index)
	case !strings.HasPrefix(g.UUID, "GPU-"):
		return unavailable("GPU %d (%s) has no UUID to name it by", g.Index, g.Name)
	case g.Clients > MaxClients:
		return fmt.Errorf("%w: %d nodes on GPU %d (%s) are more than the %d clients of an MPS server. Try: --nodes %d, or --share lease",
			ErrUnavailable, g.Clients, g.Index, g.Name, MaxClients, MaxClients)
	}
	return nil
}
