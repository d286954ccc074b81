// Package fakenvml is test support. It builds a libnvidia-ml.so.1 that needs no GPU, so that tests use the real
// go-nvml binding. It owns the C source and imports nothing of this module.
//
// The library reads its devices from the environment at nvmlInit:
//
//	FAKE_NVML=Tesla T4:15360:15000:util=90,temp=61;...
//	                                 devices, separated by ;, each with name:total MiB:free MiB[:option,...]
//	FAKE_NVML_FILE=/path             replaces FAKE_NVML: one device a line, read again at every call. To change a
//	                                 device under a running program, rename a new file over it
//	FAKE_NVML_FAIL=nvmlInit=18       functions that fail, with their NVML code, separated by commas
//	FAKE_NVML_DELAY=nvmlInit=2000    functions that answer late, in ms, separated by commas
//
// The device does not support a query without its option:
//
//	util=93         utilization, percent
//	power=310       power draw in watts; limit=400: its limit
//	capability=9    major number of the compute capability
//	mode=3          compute mode: 0 default, 2 prohibited, 3 exclusive process
//	temp=61         °C; slow=90: slowdown temperature
//	clocks=0x24     reasons for reduced clocks (nvmlClocksEventReason…)
//	proc=4711/2000  a compute process and its MiB; - for MiB: unknown; proc=none: no process
//	held=4711/2000  MiB that are not free while process 4711 runs
//	mps=4712/2000   an MPS client, in the list of MPS clients only: the server is a proc
//	xid=79          an XID error, delivered once to every event set
//	lost            off the bus; lost=N: from the Nth query of the device on
//	remap=pending   rows to be remapped at the next reset; also none, failed
//	retired=pending memory pages to be retired
//	mig             in MIG mode (A100 and H100 only); inst=1g.10gb/9728/9700: an instance: profile, total and free MiB
//	unified         memory queries are not supported, as on a GB10, which shares the host's memory
//	hang            no query of the device returns while the option is there. Events still arrive
//	forbidden       memory queries fail, like those of a MIG GPU in a container
//
// GPUs have the UUIDs GPU-a000000I-0000-4000-8000-00000000000I, instances MIG-b000000I-0000-4000-8000-00000000000J.
package fakenvml

import (
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

//go:embed testdata/nvml.c
var source []byte

// File returns a function that changes the device list under an open library (FAKE_NVML_FILE).
func File(t testing.TB) (write func(devices string)) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "devices")
	t.Setenv("FAKE_NVML_FILE", path)
	return func(devices string) {
		t.Helper()
		if err := errors.Join(os.WriteFile(path+".new", []byte(devices), 0o600), os.Rename(path+".new", path)); err != nil {
			t.Fatal(err)
		}
	}
}

// BuildIn compiles the library into dir and returns its path, for $SWARM_NVML_LIBRARY. Without a C compiler the error
// wraps exec.ErrNotFound.
func BuildIn(dir string) (string, error) { return build(dir) }

// BuildOldIn is BuildIn for a driver of 2018, which lacks MIG and most later functions. The binding looks symbols up
// once per process, so load this library in a separate process.
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
