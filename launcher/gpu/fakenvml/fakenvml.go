// Package fakenvml is test support: it builds a libnvidia-ml.so.1 that needs no GPU, so that tests drive the real
// go-nvml binding. It owns the C source and imports nothing of this module.
//
// The library reads its devices from the environment at nvmlInit:
//
//	FAKE_NVML=NVIDIA A100-SXM4-80GB:81920:81000;Tesla T4:15360:15000:util=90,temp=61   name:total MiB:free MiB[:option,…]
//	FAKE_NVML_FILE=/path             the same, a device a line, in place of FAKE_NVML and read again at every call: to change a device
//	                                 under a running program, rename a new file over it
//	FAKE_NVML_FAIL=nvmlInit=18       functions that fail, with their NVML code, separated by commas
//	FAKE_NVML_DELAY=nvmlInit=2000    functions that answer late, in ms, separated by commas
//
// What no option gives, the device doesn't support:
//
//	util=93         utilisation, per cent
//	power=310       draw in watts; limit=400 its limit
//	capability=9    compute capability, its major number
//	mode=3          compute mode: 0 default, 2 prohibited, 3 exclusive process
//	temp=61         °C; slow=90 where it begins to slow down
//	clocks=0x24     why its clocks are reduced (nvmlClocksEventReason…)
//	proc=4711/2000  a compute process and its MiB; - for MiB: not told; proc=none: there are none
//	mps=4712/2000   a client of MPS, in the list of such clients alone: the server is a proc
//	xid=79          an XID error, delivered once to every event set
//	lost            off its bus; lost=N: from the Nth query of it on
//	remap=pending   rows to be remapped at the next reset; none, failed
//	retired=pending memory pages to be retired
//	mig             in MIG mode (A100 and H100 alone); inst=1g.10gb/9728/9700 an instance: profile, total and free MiB
//	forbidden       memory may not be asked for, as of a MIG GPU in a container
//
// GPUs have the UUIDs GPU-a000000I-0000-4000-8000-00000000000I, instances MIG-b000000I-0000-4000-8000-00000000000J.
package fakenvml

import (
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

//go:embed testdata/nvml.c
var source []byte

// BuildIn compiles the library into dir and returns its path, for $SWARM_NVML_LIBRARY. The error wraps
// exec.ErrNotFound where there is no C compiler.
func BuildIn(dir string) (string, error) { return build(dir) }

// BuildOldIn is BuildIn for a driver of 2018, which lacks MIG and most of what came after it. The binding looks symbols
// up once a process: load it in a process of its own.
func BuildOldIn(dir string) (string, error) { return build(dir, "-DOLD_DRIVER") }

func build(dir string, flags ...string) (string, error) {
	compiler, err := exec.LookPath("cc")
	if err != nil {
		return "", fmt.Errorf("build fake NVML: %w", err)
	}
	from, to := filepath.Join(dir, "nvml.c"), filepath.Join(dir, "libnvidia-ml.so.1")
	if err := os.WriteFile(from, source, 0o600); err != nil {
		return "", fmt.Errorf("build fake NVML: %w", err)
	}
	args := append([]string{"-shared", "-fPIC", "-pthread", "-O1", "-Wall", "-Wextra", "-o", to, from}, flags...)
	if out, err := exec.Command(compiler, args...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("build fake NVML: %w\n%s", err, out)
	}
	return to, nil
}
