package mps

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The canary that runs on real machines, against a CUDA driver of a few functions.
func TestCanaryScript(t *testing.T) {
	compiler, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("no C compiler")
	}
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3")
	}
	dir := t.TempDir()
	if out, err := exec.Command(compiler, "-shared", "-fPIC", "-o", filepath.Join(dir, "libcuda.so.1"), "testdata/cuda.c").CombinedOutput(); err != nil {
		t.Fatalf("%s", out)
	}
	run := func(env ...string) string {
		cmd := exec.Command(python, "canary.py", fmt.Sprint(canarySmall), fmt.Sprint(canaryLarge))
		cmd.Env = append(os.Environ(), env...)
		cmd.Stdin = strings.NewReader("go\n")
		out, _ := cmd.Output() // a failing canary says so in words
		return string(out)
	}
	library := "LD_LIBRARY_PATH=" + dir
	for _, tt := range []struct {
		name string
		env  []string
		want string
	}{
		{"limited", []string{library, "FAKE_CUDA_FREE=79000000000", "FAKE_CUDA_LIMIT=2147483648"}, "ready\nrefused\n"},
		{"not limited", []string{library, "FAKE_CUDA_FREE=79000000000"}, "ready\nallowed\n"},
		{"full card", []string{library, "FAKE_CUDA_FREE=500000000", "FAKE_CUDA_LIMIT=2147483648"}, "ready\nshort 500000000\n"},
		{"limit below a context", []string{library, "FAKE_CUDA_FREE=79000000000", "FAKE_CUDA_LIMIT=1000"}, "error cuMemAlloc_v2 gives CUDA error 2\n"},
		{"server in FAULT", []string{library, "FAKE_CUDA_FAULT=1"}, "error cuInit gives CUDA error 807\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := run(tt.env...); got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
	if got := run("LD_LIBRARY_PATH=" + t.TempDir()); !strings.HasPrefix(got, "error libcuda.so.1") {
		t.Errorf("without a driver: %q", got)
	}
}
