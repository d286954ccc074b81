package runlog

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sapo-swarm/swarm/launcher/supervise"
)

// drained returns the lines that a log has at the moment.
func drained(t require.TestingT, l *logFile) []string {
	var lines []string
	for {
		line, ok, err := l.next()
		require.NoError(t, err)
		if !ok {
			return lines
		}
		lines = append(lines, line.Text)
	}
}

// A follower of a log gets every line once and in order, for any pattern of writes, rotations and polls. The log is
// the one that nodes write. The follower polls at least once per rotation: two rotations in 200 ms would mean 64
// MiB.
func TestFollowedLogLosesNothing(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp("", "swarm-log-")
		require.NoError(t, err)
		defer os.RemoveAll(dir)
		path := filepath.Join(dir, "log.txt")
		limit := int64(rapid.IntRange(200, 400).Draw(t, "limit"))
		var writer *supervise.Log
		l, err := openLog("node_0", path, -1, true)
		require.NoError(t, err)
		defer func() { l.close() }()
		var want, got []string
		sinceLook := int64(0)
		for i := range rapid.IntRange(1, 120).Draw(t, "lines") {
			line := fmt.Sprintf("line %d %s", i, strings.Repeat("x", rapid.IntRange(0, 40).Draw(t, "length")))
			if writer == nil { // the log appears only after the follower starts
				writer, err = supervise.OpenLog(path, limit)
				require.NoError(t, err)
				defer writer.Close()
			}
			cut := rapid.IntRange(0, len(line)).Draw(t, "cut") // as a pipe delivers it, in pieces
			for _, piece := range []string{line[:cut], line[cut:] + "\n"} {
				if sinceLook+int64(len(piece)) > limit {
					got, sinceLook = append(got, drained(t, l)...), 0
				}
				writer.Write([]byte(piece))
				sinceLook += int64(len(piece))
			}
			want = append(want, line)
			if rapid.Bool().Draw(t, "look") {
				got, sinceLook = append(got, drained(t, l)...), 0
			}
		}
		got = append(got, drained(t, l)...)
		require.Equal(t, want, got)
	})
}

func TestCutLogBeginsAgain(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "log.txt")
	require.NoError(t, os.WriteFile(path, []byte("one\ntwo\nthr"), 0o644))
	l, err := openLog("n", path, -1, true)
	require.NoError(t, err)
	defer l.close()
	require.Equal(t, []string{"one", "two"}, drained(t, l))
	require.NoError(t, os.WriteFile(path, []byte("new\n"), 0o644)) // truncates
	require.Equal(t, []string{"new"}, drained(t, l))
}

// The newest n lines equal those of a log that was never rotated.
func TestLastLinesReachIntoTheRotatedLog(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp("", "swarm-log-")
		require.NoError(t, err)
		defer os.RemoveAll(dir)
		path := filepath.Join(dir, "log.txt")
		var all []string
		for _, p := range []string{path + ".1", path} {
			var b bytes.Buffer
			for range rapid.IntRange(0, 6).Draw(t, "lines") {
				line := rapid.StringMatching(`[a-z ]{0,12}`).Draw(t, "line")
				all = append(all, line)
				b.WriteString(line + "\n")
			}
			require.NoError(t, os.WriteFile(p, b.Bytes(), 0o644))
		}
		n := rapid.IntRange(-1, 14).Draw(t, "n")
		l, err := openLog("n", path, n, false)
		require.NoError(t, err)
		defer l.close()
		want := all
		if n >= 0 {
			want = all[max(0, len(all)-n):]
		}
		require.Equal(t, append([]string{}, want...), append([]string{}, drained(t, l)...))
	})
}

// Lines longer than a block are found when reading backwards. A line without an end does not fill the memory.
func TestLongLines(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "log.txt")
	long := strings.Repeat("y", 200<<10)
	require.NoError(t, os.WriteFile(path, []byte("first\n"+long+"\nlast"), 0o644))
	l, err := openLog("n", path, 2, false)
	require.NoError(t, err)
	defer l.close()
	pieces := drained(t, l)
	require.Greater(t, len(pieces), 1)
	for _, piece := range pieces {
		require.LessOrEqual(t, len(piece), 2*maxLine)
	}
	require.Equal(t, long, strings.Join(pieces, ""))
	rest, ok := l.rest()
	require.True(t, ok)
	require.Equal(t, "last", rest.Text)
}
