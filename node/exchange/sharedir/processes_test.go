package sharedir

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/node/exchange"
)

// logLines collects log lines.
type logLines struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *logLines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logLines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func (l *logLines) count(text string) int { return strings.Count(l.String(), text) }

func (l *logLines) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// If two processes share as one node, the younger stops, and both report it in one line.
func TestTwoProcessesOfOneNode(t *testing.T) {
	dir := newFolder(t)
	var log logLines
	first := open(t, Options{Dir: dir, Run: testRun, Node: "a", Logger: log.logger()})
	first.processes.every = 0
	share(t, first, 0)
	second := open(t, Options{Dir: dir, Run: testRun, Node: "a"})
	second.processes.every = 0
	share(t, first, 1)
	err := second.Publish(t.Context(), batchOf("a", 2, ""))
	require.ErrorIs(t, err, exchange.ErrClosed)
	require.ErrorContains(t, err, "another process shares as node a (on ")
	require.ErrorContains(t, err, "Try: another --node-id")
	_, err = second.Gather(t.Context(), 2, []string{"b"}, exchange.Barrier{})
	require.ErrorIs(t, err, exchange.ErrClosed)
	for round := 2; round < 5; round++ {
		share(t, first, round)
	}
	require.Equal(t, 1, log.count("another process started to share as node a"))
}

// A restarted node is not mistaken for a second process, even if files of its previous process come back.
func TestRestartIsNoTwin(t *testing.T) {
	dir := newFolder(t)
	for round := range 4 {
		d := open(t, Options{Dir: dir, Run: testRun, Node: "a"})
		d.processes.every = 0
		share(t, d, round)
		share(t, d, round)
		require.NoError(t, d.Close())
	}
}

// On two machines the processes see each other late. Exactly one continues.
func TestTwinsOnTwoMachines(t *testing.T) {
	for seed := range schedules(1) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			s := newSynced(t, seed, 2)
			var dirs []*Dir
			for i := range 2 {
				d := open(t, Options{Dir: s.folder(i), Run: testRun, Node: "a"})
				d.processes.every = 0
				dirs = append(dirs, d)
			}
			s.run()
			stopped := func(d *Dir, round int) bool {
				err := d.Publish(t.Context(), batchOf("a", round, ""))
				return errors.Is(err, exchange.ErrClosed)
			}
			var out [2]bool
			for round := 0; !out[0] && !out[1]; round++ {
				out[0], out[1] = stopped(dirs[0], round), stopped(dirs[1], round)
				require.NoError(t, sleep(t.Context(), 1e6))
				require.Less(t, round, 5000)
			}
			other := dirs[0]
			if out[0] {
				other = dirs[1]
			}
			for round := range 30 {
				require.False(t, stopped(other, 10000+round), "both stopped")
				require.NoError(t, sleep(t.Context(), 1e6))
			}
		})
	}
}
