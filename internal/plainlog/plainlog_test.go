package plainlog

import (
	"bytes"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"
)

// shown is a writer that reports a terminal if its field terminal is true.
type shown struct {
	bytes.Buffer
	terminal bool
}

func (s *shown) Terminal() bool { return s.terminal }

func TestALogIsForPeopleWhileATerminalShowsIt(t *testing.T) {
	out := &shown{terminal: true}
	log := New(out, slog.LevelInfo).With("node", "node_0").WithGroup("gpu")
	log.Warn("it is\nfull", "free_bytes", 5)
	log.Debug("not told")
	require.Equal(t, "Warning: it is; full (node: node_0, gpu.free bytes: 5)\n", out.String())
	out.Reset()
	out.terminal = false
	log.Error("gone")
	require.Contains(t, out.String(), `level=ERROR msg=gone node=node_0`)
}

func TestABufferIsWatchedByNobody(t *testing.T) {
	require.False(t, Watched(new(bytes.Buffer)))
	require.True(t, Watched(&shown{terminal: true}))
}
