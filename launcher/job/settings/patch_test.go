package settings

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// patch applies a diff with the system's patch(1).
func patch(t *testing.T, dir, diff string) {
	t.Helper()
	if _, err := exec.LookPath("patch"); err != nil {
		t.Skip("no patch(1) here: the diff was compared as text only")
	}
	cmd := exec.Command("patch", "-p0", "--binary", "--fuzz=0")
	cmd.Dir, cmd.Stdin = dir, strings.NewReader(diff)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
}
