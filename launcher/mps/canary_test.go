package mps

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The script that runs on real machines, against a CUDA driver with a few functions.
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
		out, _ := cmd.Output() // a failing canary prints an error line
		return string(out)
	}
	library := "LD_LIBRARY_PATH=" + dir
	for _, tt := range []struct {
		name string
		env  []string
		want string
	}{
		{"limited", []string{library, "FAKE_CUDA_FREE=79000000000", "FAKE_CUDA_LIMIT=2147483648"}, "ready 2130706432\nrefused\n"},
		{"not limited", []string{library, "FAKE_CUDA_FREE=79000000000"}, "ready 78983222784\nallowed\n"},
		{"limited, and not told", []string{library, "FAKE_CUDA_FREE=79000000000", "FAKE_CUDA_LIMIT=2147483648", "FAKE_CUDA_WHOLE=1"}, "ready 78983222784\nrefused\n"},
		{"full card", []string{library, "FAKE_CUDA_FREE=500000000", "FAKE_CUDA_LIMIT=2147483648"}, "ready 483222784\nrefused\n"},
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

// The free memory that a real driver reported under a limit (published: T4, driver 535) proves the limit. A refusal
// for another reason does not.
func TestVerdict(t *testing.T) {
	for _, tt := range []struct {
		free   int64
		answer string
		want   Kind
	}{
		{2123231216 - canarySmall, "refused", ""},
		{canaryLimit, "refused", ""},
		{canaryLimit + 1, "refused", CanaryFailed},
		{15655829504, "refused", CanaryFailed},
		{500000000, "refused", CardFull},
		{2123231216 - canarySmall, "allowed", LimitIgnored},
		{78983222784, "allowed", LimitIgnored},
		{2123231216 - canarySmall, "error cuMemAlloc_v2 gives CUDA error 700", CanaryFailed},
		{2123231216 - canarySmall, "", CanaryFailed},
	} {
		got := Kind("")
		if f := verdict(tt.free, tt.answer, io.ErrUnexpectedEOF); f != nil {
			got = f.Kind
		}
		if got != tt.want {
			t.Errorf("%d bytes free, %q: %q, want %q", tt.free, tt.answer, got, tt.want)
		}
	}
}
