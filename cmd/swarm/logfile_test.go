package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sapo-swarm/swarm/launcher/supervise"
)

// drained are the lines that a log has at the moment.
func drained(t require.TestingT, l *logFile) []string {
	var lines []string
	for {
		line, ok, err := l.next()
		require.NoError(t, err)
		if !ok {
			return lines
		}
		lines = append(lines, line.text)
	}
}

// Whoever follows a log sees every line once and in order, however it is written, rotated and looked at. The log that is written is the
// one that nodes have. A look comes at least once a rotation: two in 200 ms would be 64 MiB.
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
			if writer == nil { // it appears only after somebody follows it
				writer, err = supervise.OpenLog(path, limit)
				require.NoError(t, err)
				defer writer.Close()
			}
			cut := rapid.IntRange(0, len(line)).Draw(t, "cut") // as the pieces of a pipe come
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

// The newest n lines are the same as those of a log that was never rotated.
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

// Lines longer than a block are found from behind, and one without an end does not fill memory.
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
		require.LessOrEqual(t, len(piece), 2*maxLogLine)
	}
	require.Equal(t, long, strings.Join(pieces, ""))
	rest, ok := l.rest()
	require.True(t, ok)
	require.Equal(t, "last", rest.text)
}

// merged runs logs without -f over a folder.
func merged(t *testing.T, dir string, wanted []string, last int) []string {
	t.Helper()
	var lines []string
	m := &logMerge{dir: dir, wanted: wanted, last: last, emit: func(l logLine) error {
		lines = append(lines, l.log+" "+l.text)
		return nil
	}}
	require.NoError(t, m.run(t.Context(), nil))
	return lines
}

func TestLogsAreMergedByTime(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	at := func(second int) string {
		return time.Date(2026, 11, 21, 10, 0, second, 0, time.FixedZone("", 3600)).Format("time=2006-01-02T15:04:05.000Z07:00 ") + "msg=m"
	}
	write := func(name string, lines ...string) {
		path := logPath(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o644))
	}
	write(coordinatorName, at(1), at(5))
	write("node_2", at(3), "Traceback", "  line", at(6))
	write("node_10", "no time yet", at(2), at(4))
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "exchange"), 0o755))
	require.Equal(t, []string{
		"node_10 no time yet", "coordinator " + at(1), "node_10 " + at(2), "node_2 " + at(3), "node_2 Traceback", "node_2   line", "node_10 " + at(4),
		"coordinator " + at(5), "node_2 " + at(6),
	}, merged(t, dir, nil, -1))
	require.Equal(t, []string{"coordinator " + at(5), "node_2 " + at(6)}, merged(t, dir, []string{"node_2", coordinatorName}, 1))
	require.Equal(t, []string{coordinatorName, "node_2", "node_10"}, logNames(dir))
}

// A follower goes on until the run has ended, and then prints what came last.
func TestFollowEndsWithTheRun(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	asked := 0
	var lines []string
	m := &logMerge{dir: dir, last: 10, follow: true, emit: func(l logLine) error {
		lines = append(lines, l.log+" "+l.text)
		return nil
	}}
	require.NoError(t, m.run(t.Context(), func(context.Context) (bool, error) {
		if asked++; asked == 2 { // a node that appears later, and ends without the end of its line
			require.NoError(t, os.MkdirAll(filepath.Join(dir, "node_0"), 0o755))
			require.NoError(t, os.WriteFile(logPath(dir, "node_0"), []byte("a\nb"), 0o644))
		}
		return asked == 2, nil
	}))
	require.Equal(t, []string{"node_0 a", "node_0 b"}, lines)
}

func TestLogLinesCannotCommandTheTerminal(t *testing.T) {
	t.Parallel()
	require.Equal(t, "red\tand \uFFFD", printable("\x1b[31mred\x1b[0m\tand \x07"))
}
