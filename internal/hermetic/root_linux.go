package hermetic

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

const (
	// inNamespace is set in the copy of the test binary that Root starts.
	inNamespace = "SWARM_TEST_IN_NAMESPACE"

	rootLimit = 5 * time.Minute // for a test in its namespace
)

// Root returns if this process is root, so that the test can mount file systems. For another user, Root runs the whole
// test in a user namespace where this user is root, and ends this test: it fails if that test failed, and is skipped
// otherwise. It is also skipped where users may not create such namespaces.
func Root(t *testing.T) {
	t.Helper()
	if os.Geteuid() == 0 {
		return
	}
	if os.Getenv(inNamespace) != "" {
		t.Skip("needs root: this user namespace does not make its user root")
	}
	name, _, _ := strings.Cut(t.Name(), "/")
	ctx, cancel := context.WithTimeout(t.Context(), rootLimit)
	defer cancel()
	again := exec.CommandContext(ctx, os.Args[0], "-test.v", "-test.run=^"+name+"$", "-test.timeout="+rootLimit.String())
	again.Env, again.WaitDelay = append(os.Environ(), inNamespace+"=1"), 10*time.Second
	again.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
	}
	out, err := again.CombinedOutput()
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit) || ctx.Err() != nil:
		t.Fatalf("as root of a user namespace: %v\n%s", err, out)
	case err != nil:
		t.Skipf("needs root, and this user gets no user namespace: %v", err)
	case bytes.Contains(out, []byte("--- PASS: "+name+" ")):
		t.Skip("passed as root of a user namespace")
	}
	t.Skipf("needs root, and did not pass as root of a user namespace: %s", out)
}
