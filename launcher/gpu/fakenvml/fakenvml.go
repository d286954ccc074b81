// Package fakenvml is test support: it builds a libnvidia-ml.so.1 that needs no GPU, so that tests drive the real go-nvml
// binding. It owns the C source and imports nothing of ours.
//
// The library reads its devices from the environment at nvmlInit:
//
//	FAKE_NVML=NVIDIA A100-SXM4-80GB:81920:81000;Tesla T4:15360:15000   name:total MiB:free MiB[:mig]
//	FAKE_NVML_FAIL=nvmlInit=18                                         one function fails with an NVML code
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

// Build compiles the library and returns its path, for $SWARM_NVML_LIBRARY. The test is skipped where there is no C
// compiler.
func Build(t testing.TB) string {
	t.Helper()
	path, err := BuildIn(t.TempDir())
	if errors.Is(err, exec.ErrNotFound) {
		t.Skip("no C compiler")
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// BuildIn compiles the library into dir and returns its path; for a TestMain, which has no testing.TB. The error wraps
// exec.ErrNotFound where there is no C compiler.
func BuildIn(dir string) (string, error) {
	compiler, err := exec.LookPath("cc")
	if err != nil {
		return "", fmt.Errorf("build fake NVML: %w", err)
	}
	from, to := filepath.Join(dir, "nvml.c"), filepath.Join(dir, "libnvidia-ml.so.1")
	if err := os.WriteFile(from, source, 0o600); err != nil {
		return "", fmt.Errorf("build fake NVML: %w", err)
	}
	if out, err := exec.Command(compiler, "-shared", "-fPIC", "-O1", "-Wall", "-o", to, from).CombinedOutput(); err != nil {
		return "", fmt.Errorf("build fake NVML: %w\n%s", err, out)
	}
	return to, nil
}
