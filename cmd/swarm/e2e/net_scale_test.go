package e2e

import (
	"context"
	"flag"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	"gonum.org/v1/gonum/stat"

	"github.com/sapo-swarm/swarm/node/task"
)

// Flags that make net-test sets. The defaults are for every test run.
var (
	scaleNodes  = flag.String("scale", "12", "numbers of simulated nodes, with commas")
	scaleEach   = flag.Int("scale.each", 8, "nodes of a simulated worker")
	scaleRounds = flag.Int("scale.rounds", 2, "measured rounds")
	scaleSleep  = flag.Duration("scale.sleep", 500*time.Millisecond, "what a simulated node's policy takes")
	scaleSpread = flag.Float64("scale.spread", 0.1, "how far apart nodes' policies are, as a share of that")
	scalePeers  = flag.Int("scale.max-peers", 16, "max_peers")
	scaleTarget = flag.Bool("scale.target", false, "fail where a target is missed: 1 s a round and 1 GB at any size")
)

// scaleFigures are the measurements of one swarm size.
type scaleFigures struct {
	nodes                      int
	p50, p99, whole            float64 // seconds that a barrier took beyond its slowest peer: percentiles over nodes, and the whole swarm's, mean over rounds
	shared                     float64 // seconds per Publish, median
	sent, received             float64 // bytes of rollouts per node-round
	rss, rssPeak               float64 // of the coordinator, bytes
	coordinatorCPU, simulation float64 // processor seconds per node-round
	database, store            float64 // bytes per node-round
	late                       int
}

// Simulated nodes, with 8 rollouts of 8 completions of 200 tokens each, train beside a real coordinator with a real
// node. All their rounds are recorded there, and no node is late. The test prints the cost per round and how it
// grows.
func TestScale(t *testing.T) {
	if !*scaleTarget { // without time limits to meet
		t.Parallel()
	}
	var all []scaleFigures
	for text := range strings.SplitSeq(*scaleNodes, ",") {
		count, err := strconv.Atoi(text)
		require.NoError(t, err)
		all = append(all, scaleOnce(t, count))
	}
	t.Log("\n" + scaleTable(all))
	for _, f := range all {
		if *scaleTarget && (f.p99 > 1 || f.rssPeak > 1e9) {
			t.Errorf("%d nodes: the barrier took %.2f s (p99), the coordinator %.2f GB", f.nodes, f.p99, f.rssPeak/1e9)
		}
	}
}

func scaleOnce(t *testing.T, count int) scaleFigures {
	t.Helper()
	home := t.TempDir()
	r := startProgram(t, home, append([]string{"up", "--name", "e", "-o", "json", "--listen", "127.0.0.1:0"}, tinyRun(
		"--nodes", "1", "--rounds", "1000000", "--num-train-samples", "8", "--num-transplant-trees", "4", "--num-generations", "8",
		"--set", "barrier_deadline=600", "--set", fmt.Sprintf("max_peers=%d", *scalePeers))...)...)
	invitation := invitationOf(t, r)
	swarm := assemble(t, invitation, count)
	pid := r.cmd.Process.Pid

	group, ctx := errgroup.WithContext(t.Context())
	reporting, stop := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	for _, w := range swarm.workers {
		clients.Go(func() { _ = w.client.Serve(reporting) }) // ends with its context
	}
	newest := 0
	for _, w := range swarm.workers {
		for _, s := range w.assignments {
			newest = max(newest, s.From)
		}
	}
	first := newest + 1 // every node takes part, and none has just started
	var before, after scaleUse
	for _, n := range swarm.nodes {
		group.Go(func() error { return n.train(ctx, first+*scaleRounds-n.worker.assignments[n.index].From) })
	}
	watched := swarm.nodes[0]
	require.NoError(t, watched.until(ctx, first), "the swarm's first rounds")
	before = scaleUseOf(t, home, pid)
	require.NoError(t, group.Wait())
	for _, w := range swarm.workers {
		require.NoError(t, w.client.Drain(t.Context()))
	}
	require.NoError(t, swarm.recorded(t, home, first))
	after = scaleUseOf(t, home, pid)
	stop()
	clients.Wait()
	for _, w := range swarm.workers {
		_ = w.close()
	}
	for _, n := range swarm.nodes {
		require.NoError(t, n.way.Close())
	}
	require.NoError(t, r.cmd.Process.Signal(syscall.SIGTERM))
	require.Equal(t, 128+int(syscall.SIGTERM), waitFor(t, r.cmd), r.stderr)

	figures := swarm.figures(first, *scaleRounds)
	per := float64(count * *scaleRounds)
	figures.rss, figures.rssPeak = after.rss, after.peak
	figures.coordinatorCPU, figures.simulation = (after.cpu-before.cpu)/per, (after.own-before.own)/per
	figures.database, figures.store = (after.database-before.database)/per, (after.store-before.store)/per
	require.Zero(t, figures.late, "batches that were not there at the deadline")
	return figures
}

// simSwarm holds the simulated nodes.
type simSwarm struct {
	workers []*simWorker
	nodes   []*simNode
}

// assemble adds that many nodes to the swarm.
func assemble(t *testing.T, invitation string, count int) *simSwarm {
	t.Helper()
	s := &simSwarm{workers: make([]*simWorker, (count+*scaleEach-1)/(*scaleEach))}
	dir := t.TempDir()
	if info, err := os.Stat("/dev/shm"); err == nil && info.IsDir() {
		// A hundred outboxes that sync twice a second would be on a hundred disks in reality.
		made, err := os.MkdirTemp("/dev/shm", "swarm-scale-")
		require.NoError(t, err)
		t.Cleanup(func() { _ = os.RemoveAll(made) })
		dir = made
	}
	group, ctx := errgroup.WithContext(t.Context())
	group.SetLimit(8)
	for i := range s.workers {
		group.Go(func() error {
			name := fmt.Sprintf("w%d", i)
			var err error
			s.workers[i], err = joinSimulated(ctx, invitation, name, filepath.Join(dir, name), min(*scaleEach, count-i**scaleEach))
			return err
		})
	}
	require.NoError(t, group.Wait())
	tokens := newFourBytes()
	tasks, err := task.Open(s.workers[0].config.Tasks)
	require.NoError(t, err)
	s.nodes = make([]*simNode, count)
	group, ctx = errgroup.WithContext(t.Context())
	group.SetLimit(16)
	for i := range s.nodes {
		w := s.workers[i/(*scaleEach)]
		group.Go(func() error {
			var err error
			s.nodes[i], err = w.open(ctx, i%(*scaleEach), tasks, newSleeper(tokens, *scaleSleep, *scaleSpread, w.config.NumGenerations, uint64(i)))
			return err
		})
	}
	require.NoError(t, group.Wait())
	return s
}

// until waits until the node has gathered the previous round.
func (n *simNode) until(ctx context.Context, round int) error {
	for {
		n.way.mu.Lock()
		t := n.way.rounds[round-1]
		there := t != nil && !t.gathered.IsZero()
		n.way.mu.Unlock()
		if there {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// recorded waits until the coordinator's database has every simulated round.
func (s *simSwarm) recorded(t *testing.T, home string, first int) error {
	want := 0
	for _, n := range s.nodes {
		want += first + *scaleRounds - n.worker.assignments[n.index].From
	}
	return pollFor(time.Minute, fmt.Sprintf("record of %d rounds", want), func() (bool, error) {
		rows, err := tableRows(home, `SELECT count(*) AS c FROM rounds JOIN nodes USING (run, node) WHERE worker != ''`)
		if err != nil {
			return false, err
		}
		return len(rows) == 1 && strings.TrimSpace(rows[0]) == fmt.Sprintf("c=%d", want), nil
	})
}

// figures returns the barriers' times for rounds from first on.
func (s *simSwarm) figures(first, rounds int) scaleFigures {
	f := scaleFigures{nodes: len(s.nodes)}
	byName := map[string]*simNode{}
	for _, n := range s.nodes {
		byName[n.ID] = n
	}
	var waits, shares []float64
	for round := first; round < first+rounds; round++ {
		var lastReady, lastDone time.Time
		for _, n := range s.nodes {
			own := n.way.rounds[round]
			ready := own.ready
			for _, peer := range own.peers {
				if p := byName[peer]; p != nil { // the coordinator's own node is fast
					ready = latest(ready, p.way.rounds[round].ready)
				}
			}
			waits = append(waits, own.gathered.Sub(ready).Seconds())
			shares = append(shares, own.shared.Sub(own.ready).Seconds())
			lastReady, lastDone = latest(lastReady, own.ready), latest(lastDone, own.gathered)
			f.sent += float64(own.sent)
			f.received += float64(own.received)
			f.late += own.late
		}
		f.whole += lastDone.Sub(lastReady).Seconds() / float64(rounds)
	}
	f.sent /= float64(len(waits))
	f.received /= float64(len(waits))
	slices.Sort(waits)
	slices.Sort(shares)
	f.p50, f.p99 = stat.Quantile(0.5, stat.Empirical, waits, nil), stat.Quantile(0.99, stat.Empirical, waits, nil)
	f.shared = stat.Quantile(0.5, stat.Empirical, shares, nil)
	return f
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// scaleUse is the resource use up to a point in time.
type scaleUse struct{ rss, peak, cpu, own, database, store float64 }

func scaleUseOf(t *testing.T, home string, pid int) scaleUse {
	t.Helper()
	var u scaleUse
	var err error
	u.rss, err = residentBytes(pid)
	require.NoError(t, err)
	u.peak, err = statusBytes(pid, "VmHWM")
	require.NoError(t, err)
	u.cpu = processorSeconds(t, pid)
	u.own = processorSeconds(t, os.Getpid())
	for _, suffix := range []string{"", "-wal"} {
		if info, err := os.Stat(filepath.Join(home, "swarm.db"+suffix)); err == nil {
			u.database += float64(info.Size())
		}
	}
	_ = filepath.WalkDir(filepath.Join(home, "runs"), func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && strings.Contains(path, "exchange") {
			if info, err := d.Info(); err == nil {
				u.store += float64(info.Size())
			}
		}
		return nil // files may disappear meanwhile
	})
	return u
}

// residentBytes returns a process's current memory.
func residentBytes(pid int) (float64, error) { return statusBytes(pid, "VmRSS") }

// statusBytes returns a size from a process's status, in bytes.
func statusBytes(pid int, name string) (float64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.SplitSeq(string(status), "\n") {
		var kilobytes float64
		if _, err := fmt.Sscanf(line, name+": %f", &kilobytes); err == nil {
			return kilobytes * 1024, nil
		}
	}
	return 0, fmt.Errorf("process %d has no %s", pid, name)
}

// processorSeconds returns a process's CPU time so far, without its children.
func processorSeconds(t *testing.T, pid int) float64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	require.NoError(t, err)
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	var ticks float64
	for _, field := range fields[11:13] { // utime, stime
		n, err := strconv.ParseFloat(field, 64)
		require.NoError(t, err)
		ticks += n
	}
	const ticksPerSecond = 100 // on every Linux that Go runs on
	return ticks / ticksPerSecond
}

// scaleTable formats the figures with their exponents: each grows like the number of nodes to that power.
func scaleTable(all []scaleFigures) string {
	columns := []struct {
		name, format string
		value        func(scaleFigures) float64
	}{
		{"barrier p50 s", "%.3f", func(f scaleFigures) float64 { return f.p50 }},
		{"p99 s", "%.3f", func(f scaleFigures) float64 { return f.p99 }},
		{"whole swarm s", "%.3f", func(f scaleFigures) float64 { return f.whole }},
		{"publish p50 s", "%.4f", func(f scaleFigures) float64 { return f.shared }},
		{"sent kB", "%.1f", func(f scaleFigures) float64 { return f.sent / 1e3 }},
		{"received kB", "%.1f", func(f scaleFigures) float64 { return f.received / 1e3 }},
		{"coord. CPU ms", "%.2f", func(f scaleFigures) float64 { return f.coordinatorCPU * 1e3 }},
		{"nodes CPU ms", "%.2f", func(f scaleFigures) float64 { return f.simulation * 1e3 }},
		{"database kB", "%.2f", func(f scaleFigures) float64 { return f.database / 1e3 }},
		{"store kB", "%.1f", func(f scaleFigures) float64 { return f.store / 1e3 }},
		{"coord. RSS MB", "%.0f", func(f scaleFigures) float64 { return f.rss / 1e6 }},
		{"peak MB", "%.0f", func(f scaleFigures) float64 { return f.rssPeak / 1e6 }},
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d rounds, the policy sleeps %s ± %.0f %%, %d nodes a worker, max_peers %d, %d CPUs; bytes and CPU are of one node's round\n",
		*scaleRounds, *scaleSleep, 50**scaleSpread, *scaleEach, *scalePeers, runtime.NumCPU())
	out := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(out, "nodes\t")
	for _, c := range columns {
		fmt.Fprint(out, c.name, "\t")
	}
	fmt.Fprintln(out)
	for _, f := range all {
		fmt.Fprint(out, f.nodes, "\t")
		for _, c := range columns {
			fmt.Fprintf(out, c.format+"\t", c.value(f))
		}
		fmt.Fprintln(out)
	}
	if len(all) > 1 {
		fmt.Fprint(out, "grows as nodes^\t")
		for _, c := range columns {
			fmt.Fprint(out, exponent(all, c.value), "\t")
		}
		fmt.Fprintln(out)
	}
	_ = out.Flush() // into memory
	return b.String()
}

// exponent returns the slope of a least-squares line through the logarithms.
func exponent(all []scaleFigures, value func(scaleFigures) float64) string {
	var xs, ys []float64
	for _, f := range all {
		if v := value(f); v > 0 {
			xs, ys = append(xs, math.Log(float64(f.nodes))), append(ys, math.Log(v))
		}
	}
	if len(xs) < 2 {
		return "–"
	}
	_, slope := stat.LinearRegression(xs, ys, nil, false)
	return fmt.Sprintf("%.2f", slope)
}
