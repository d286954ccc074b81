package hermetic

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// outcome is set for TestRootMounts: the mount fails or works.
const outcome = "SWARM_TEST_ROOT_OUTCOME"

// TestRootMounts mounts a file system. TestRootOfANamespace runs it as another user.
func TestRootMounts(t *testing.T) {
	Root(t)
	if os.Getenv(outcome) == "" {
		t.Skip("TestRootOfANamespace runs it")
	}
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("no mount: %v", err)
	}
	defer func() { require.NoError(t, syscall.Unmount(dir, 0)) }()
	require.Equal(t, "works", os.Getenv(outcome))
}

// A test that needs root runs for other users in a user namespace, and its failure is theirs.
func TestRootOfANamespace(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can become another user")
	}
	const nobody = 65534
	dir, err := os.MkdirTemp("/tmp", "swarm-root-") // another user may not read below t.TempDir or a private TMPDIR
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	require.NoError(t, os.Chmod(dir, 0o777)) //nolint:gosec // the other user makes its folders there
	self, err := os.ReadFile(os.Args[0])
	require.NoError(t, err)
	binary := filepath.Join(dir, "test")
	require.NoError(t, os.WriteFile(binary, self, 0o755))
	run := func(want string) (string, error) {
		cmd := exec.CommandContext(t.Context(), binary, "-test.v", "-test.run=^TestRootMounts$", "-test.timeout=2m")
		cmd.Dir, cmd.Env = dir, append(os.Environ(), outcome+"="+want, "TMPDIR="+dir)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	out, err := run("works")
	require.NoError(t, err, out)
	require.Contains(t, out, "--- SKIP: TestRootMounts")
	require.Contains(t, out, "root")
	out, failed := run("fails")
	if failed == nil {
		require.Contains(t, out, "needs root, and")
		t.Skip("no mount in a user namespace here: ", out)
	}
	require.Contains(t, out, "as root of a user namespace")
	require.Contains(t, out, "--- FAIL: TestRootMounts")
}
