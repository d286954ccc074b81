package e2e

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/stretchr/testify/require"
)

var soakMinutes = flag.Float64("soak.minutes", 0, "length of the soak in minutes; 0: none")

// soakInterval is the interval between samples of a soak.
const soakInterval = 5 * time.Second

// soak is an endless run whose processes and files are measured.
type soak struct {
	keeper *keeper
	home   string
	began  time.Time
	all    map[string]*soakSeries
	order  []string
}

// A long run does not increase memory, descriptors, threads, goroutines, write-ahead log, message store or logs. Its
// journals and database grow by the size of a round. make soak runs this test.
func TestSoak(t *testing.T) {
	if *soakMinutes <= 0 {
		t.Skip("make soak")
	}
	home := t.TempDir()
	args := append([]string{"--verbose", "up", "-o", "json", "--name", "e"}, tinyRun("--nodes", "4", "--rounds", "10000000", "--checkpoint-every", "25")...)
	s := &soak{home: home, began: time.Now(), all: map[string]*soakSeries{}, keeper: newKeeper(home, stormEnviron(t, home), args)}
	s.keeper.excuse(128 + int(syscall.SIGTERM))
	ctx, cancel := context.WithTimeout(t.Context(), time.Duration((*soakMinutes+5)*float64(time.Minute)))
	defer cancel()
	var group sync.WaitGroup
	group.Go(func() { _, _, _ = s.keeper.attempt(ctx) })
	require.NoError(t, s.keeper.until(ctx, "first rounds", func() bool { return s.keeper.front(4) > 20 }))
	pids := s.pids(t)
	ticker := time.NewTicker(soakInterval)
	defer ticker.Stop()
	for end := time.After(time.Duration(*soakMinutes * float64(time.Minute))); ; {
		require.NoError(t, s.sample(pids))
		select {
		case <-ticker.C:
			continue
		case <-ctx.Done():
			t.Fatal(context.Cause(ctx))
		case <-end:
		}
		break
	}
	s.keeper.mu.Lock()
	pid := s.keeper.pid
	s.keeper.mu.Unlock()
	require.NotZero(t, pid, "the run has ended by itself")
	send(t, pid, syscall.SIGTERM)
	group.Wait()
	s.readLogs()
	text, bad := s.report()
	t.Log("\n" + text)
	require.Empty(t, bad)
}

// pids returns the run's processes by role.
func (s *soak) pids(t *testing.T) map[string]int {
	t.Helper()
	st := &storm{t: t, ctx: t.Context(), home: s.home, keeper: s.keeper}
	pids := map[string]int{}
	var err error
	pids["coordinator"], err = coordinatorProcess(st)
	require.NoError(t, err)
	for node := range 4 {
		pids[fmt.Sprintf("node_%d", node)], err = nodeProcess(st, node)
		require.NoError(t, err)
		pids[fmt.Sprintf("engine of node_%d", node)], err = engineProcess(st, node)
		require.NoError(t, err)
	}
	return pids
}

// add records a value of a series at x: seconds since the soak's start, or node-rounds for quantities that grow with
// rounds.
func (s *soak) add(what, name string, x, y float64) {
	key := name + " " + what
	if s.all[key] == nil {
		s.all[key] = &soakSeries{name: key, limit: soakLimits[what]}
		s.order = append(s.order, key)
	}
	s.all[key].x = append(s.all[key].x, x)
	s.all[key].y = append(s.all[key].y, y)
}

// sample takes one sample of everything.
func (s *soak) sample(pids map[string]int) error {
	now := time.Since(s.began).Seconds()
	s.keeper.mu.Lock()
	rounds := 0
	for _, r := range s.keeper.rounds {
		rounds += r
	}
	s.keeper.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(pids)) {
		pid := pids[name]
		files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
		if err != nil {
			return fmt.Errorf("%s (process %d) is gone: %w", name, pid, err)
		}
		s.add("open files", name, now, float64(len(files)))
		for _, key := range []string{"VmRSS", "Threads"} {
			value, err := statusValue(pid, key)
			if err != nil {
				return err
			}
			s.add(key, name, now, value)
		}
	}
	run := filepath.Join(s.home, "runs", stormRun)
	s.add("wal", "swarm.db", now, bytesOf(filepath.Join(s.home, "swarm.db-wal")))
	s.add("exchange", "message", now, treeBytes(filepath.Join(run, "exchange"), ""))
	s.add("checkpoints", "all", now, treeBytes(run, "checkpoint-"))
	s.add("logs", "all", float64(rounds), treeBytes(run, "log.txt")+treeBytes(run, "coordinator.log"))
	s.add("database", "swarm.db", float64(rounds), bytesOf(filepath.Join(s.home, "swarm.db")))
	s.add("journal", "all", float64(rounds), treeBytes(run, "journal-"))
	return nil
}

// readLogs reads the numbers of goroutines from the resource lines of the verbose logs.
func (s *soak) readLogs() {
	run := filepath.Join(s.home, "runs", stormRun)
	logs := map[string]string{"coordinator": filepath.Join(run, "coordinator.log")}
	for node := range 4 {
		name := fmt.Sprintf("node_%d", node)
		logs[name] = filepath.Join(run, name, "log.txt")
	}
	for _, name := range slices.Sorted(maps.Keys(logs)) {
		path := logs[name]
		data, _ := os.ReadFile(path)
		for line := range strings.Lines(string(data)) {
			if at, n, ok := goroutineLine(line); ok {
				s.add("goroutines", name, at.Sub(s.began).Seconds(), n)
			}
		}
		if s.all[name+" goroutines"] == nil {
			s.add("goroutines", name, 0, 0) // too few values: the report says so
		}
	}
}

// report returns a table of all slopes, and the faults.
func (s *soak) report() (text string, bad []string) {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "what\tmean\tslope\t±\tallowed\tunit\t")
	for _, key := range s.order {
		one := s.all[key]
		slope, wrong, err := one.judge()
		if err != nil {
			bad = append(bad, fmt.Sprintf("%s: %v", key, err))
			continue
		}
		fmt.Fprintf(w, "%s\t%.4g\t%+.3g\t%.2g\t%.3g\t%s\t\n", key, slope.mean, slope.rise, slope.error, one.limit.rise, one.limit.unit)
		if wrong {
			bad = append(bad, fmt.Sprintf("%s rises by %.3g ± %.2g %s; %.3g are allowed", key, slope.rise, slope.error, one.limit.unit, one.limit.rise))
		}
	}
	w.Flush()
	return b.String(), bad
}
