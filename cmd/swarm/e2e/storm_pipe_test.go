package e2e

import (
	"bufio"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

// A storm really closes other processes' pipes: cat, waiting for input, then fails to read and reports it.
func TestClosesAPipeFromOutside(t *testing.T) {
	t.Parallel()
	if err := canClosePipes(nil); err != nil {
		t.Skip(err)
	}
	cat := exec.Command("cat")
	in, err := cat.StdinPipe()
	require.NoError(t, err)
	out, err := cat.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cat.Start())
	_, err = in.Write([]byte("line\n"))
	require.NoError(t, err)
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "line\n", line)
	require.NoError(t, closeDescriptor(cat.Process.Pid, 0))
	require.Equal(t, 1, waitFor(t, cat))
	_, err = in.Write([]byte("x"))
	require.Error(t, err, "nobody reads any more")
}

// The same seed draws the same storm, and each kind of fault comes once before any comes twice.
func TestStormsAreDrawnBySeed(t *testing.T) {
	t.Parallel()
	kinds := faultKinds()
	first, again, other := drawFaults(5, 200, 4, kinds), drawFaults(5, 200, 4, kinds), drawFaults(6, 200, 4, kinds)
	require.Equal(t, first, again)
	require.NotEqual(t, first, other)
	seen := map[*faultKind]bool{}
	for _, f := range first[:len(kinds)] {
		seen[f.kind] = true
	}
	require.Len(t, seen, len(kinds))
}
