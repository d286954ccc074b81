package runlog

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// merged returns the lines of a folder without following it.
func merged(t *testing.T, dir string, wanted []string, last int) []string {
	t.Helper()
	var lines []string
	m := &Merge{Dir: dir, Logs: wanted, Last: last, Emit: func(l Line) error {
		lines = append(lines, l.Log+" "+l.Text)
		return nil
	}}
	require.NoError(t, m.Run(t.Context(), nil))
	return lines
}

func TestLogsAreMergedByTime(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	at := func(second int) string {
		return time.Date(2026, 11, 21, 10, 0, second, 0, time.FixedZone("", 3600)).Format("time=2006-01-02T15:04:05.000Z07:00 ") + "msg=m"
	}
	write := func(name string, lines ...string) {
		path := Path(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o644))
	}
	write(Coordinator, at(1), at(5))
	write("node_2", at(3), "Traceback", "  line", at(6))
	write("node_10", "no time yet", at(2), at(4))
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "exchange"), 0o755))
	require.Equal(t, []string{
		"node_10 no time yet", "coordinator " + at(1), "node_10 " + at(2), "node_2 " + at(3), "node_2 Traceback", "node_2   line", "node_10 " + at(4),
		"coordinator " + at(5), "node_2 " + at(6),
	}, merged(t, dir, nil, -1))
	require.Equal(t, []string{"coordinator " + at(5), "node_2 " + at(6)}, merged(t, dir, []string{"node_2", Coordinator}, 1))
	require.Equal(t, []string{Coordinator, "node_2", "node_10"}, logNames(dir))
}

// A follower continues until the run has ended, and then prints the last lines.
func TestFollowEndsWithTheRun(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	asked := 0
	var lines []string
	m := &Merge{Dir: dir, Last: 10, Follow: true, Emit: func(l Line) error {
		lines = append(lines, l.Log+" "+l.Text)
		return nil
	}}
	require.NoError(t, m.Run(t.Context(), func(context.Context) (bool, error) {
		if asked++; asked == 2 { // a node that appears later and ends in the middle of a line
			require.NoError(t, os.MkdirAll(filepath.Join(dir, "node_0"), 0o755))
			require.NoError(t, os.WriteFile(Path(dir, "node_0"), []byte("a\nb"), 0o644))
		}
		return asked == 2, nil
	}))
	require.Equal(t, []string{"node_0 a", "node_0 b"}, lines)
}
