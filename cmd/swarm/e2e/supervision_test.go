package e2e

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/interrupt"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/store"
)

const (
	longRounds = 36
	longEvery  = 6  // rounds between two checkpoints
	killAfter  = 10 // rounds; between two checkpoints
)

func longRun() []string {
	return []string{"--rounds", strconv.Itoa(longRounds), "--checkpoint-every", strconv.Itoa(longEvery), "--seed", "7"}
}

// learned is the result of a run: its reward, and the hashes of each node's last checkpoint, of the weights and of
// the file.
type learned struct {
	reward      float64
	checkpoints map[string][2]string
}

func readLearned(t *testing.T, home, run string) learned {
	t.Helper()
	reader, err := store.OpenReader(t.Context(), filepath.Join(home, "swarm.db"))
	require.NoError(t, err)
	defer reader.Close()
	snapshot, err := reader.Snapshot(t.Context(), run)
	require.NoError(t, err)
	out := learned{checkpoints: map[string][2]string{}}
	for _, n := range snapshot.Nodes {
		require.Equal(t, snapshot.Run.Rounds, n.RoundsDone, n.Node)
		out.reward += n.CumulativeReward
		c, err := reader.Checkpoint(t.Context(), run, n.Node)
		require.NoError(t, err)
		require.NotNil(t, c)
		require.Equal(t, snapshot.Run.Rounds, c.Round)
		data, err := os.ReadFile(c.Path)
		require.NoError(t, err)
		sum := sha256.Sum256(data)
		out.checkpoints[n.Node] = [2]string{c.WeightHash, hex.EncodeToString(sum[:])}
	}
	return out
}

var (
	undisturbedOnce sync.Once
	undisturbedRun  learned
)

// undisturbed returns the result of the long run without faults.
func undisturbed(t *testing.T) learned {
	t.Helper()
	undisturbedOnce.Do(func() {
		home := t.TempDir()
		r := start(t, home, longRun()...)
		require.Equal(t, 0, r.wait(), r.stderr)
		require.Equal(t, 0, r.summary.Restarts)
		undisturbedRun = readLearned(t, home, "e-1")
	})
	require.Positive(t, undisturbedRun.reward, "the reference run failed, or learned nothing")
	require.Len(t, undisturbedRun.checkpoints, 2)
	return undisturbedRun
}

// A killed engine or node resumes from its checkpoint, and the run ends as if undisturbed.
func TestKilledProcessesComeBack(t *testing.T) {
	t.Parallel()
	for _, victim := range []string{"engine", "node"} {
		t.Run(victim, func(t *testing.T) {
			t.Parallel()
			want := undisturbed(t)
			home := t.TempDir()
			r := start(t, home, longRun()...)
			engine := r.engine("node_1")
			r.awaitRound("node_1", killAfter)
			before := status(t, home)
			require.Equal(t, store.RunRunning, before.State)
			require.Equal(t, r.cmd.Process.Pid, before.PID)
			node := r.node("node_1")
			require.Equal(t, r.cmd.Process.Pid, parent(t, node))
			if above := parent(t, engine); above != node {
				command, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(above), "cmdline"))
				require.NoError(t, err)
				require.Contains(t, string(command), "\x00engine\x00--host\x00")
			}
			pid := map[string]int{"engine": engine, "node": node}[victim]
			send(t, pid, syscall.SIGKILL)
			require.Equal(t, 0, r.wait(), r.stderr)

			after := status(t, home)
			require.Equal(t, store.RunDone, after.State)
			require.Equal(t, 1, after.Restarts)
			require.Equal(t, 1, after.Nodes[1].Restarts)
			require.Equal(t, longRounds, after.Round)
			require.Equal(t, 1, r.summary.Restarts)
			again := r.await("second load of node_1", func(e event.Event) bool {
				return e.Type == event.TypeLoaded && e.Node == "node_1" && e.Loaded.EnginePID != engine
			})
			require.GreaterOrEqual(t, again.Loaded.StartRound, killAfter/longEvery*longEvery, "it did not start from a checkpoint")
			got := readLearned(t, home, "e-1")
			require.InDelta(t, want.reward, got.reward, 1e-9)
			require.Equal(t, want.checkpoints, got.checkpoints)
			requireNoProcess(t, home)
		})
	}
}

// When a coordinator is killed, its nodes and engines end, status shows it as crashed, and it blocks no later run.
func TestKilledCoordinator(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	r := start(t, home, "--rounds", "100000", "--checkpoint-every", "5")
	r.awaitRound("node_0", 5)
	require.Eventually(t, func() bool { // a round's first rewards may all be zero
		now := status(t, home)
		return now.Round > 0 && now.CumulativeReward > 0
	}, patience, 100*time.Millisecond)
	require.Len(t, processes(home), 5) // coordinator, two nodes, two engines
	require.NoError(t, r.cmd.Process.Kill())
	require.Equal(t, 137, r.wait())
	requireNoProcess(t, home)

	crashed := status(t, home)
	require.Equal(t, "crashed", crashed.State)
	require.Positive(t, crashed.Round)
	require.Positive(t, crashed.CumulativeReward)
	require.Nil(t, crashed.ETASeconds)

	next := start(t, home, "--rounds", "2", "--nodes", "1", "--fresh")
	require.Equal(t, 0, next.wait(), next.stderr)
	require.Equal(t, "e-2", next.summary.Run)
	require.Equal(t, store.RunDone, status(t, home).State)
}

// The first signal stops in order: every node writes a checkpoint.
func TestSignalsStopInOrder(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		signal syscall.Signal
		code   int
	}{{syscall.SIGINT, 130}, {syscall.SIGTERM, 143}} {
		t.Run(tt.signal.String(), func(t *testing.T) {
			t.Parallel()
			home := t.TempDir()
			r := start(t, home, "--rounds", "100000", "--checkpoint-every", "100000")
			r.awaitRound("node_0", 5)
			r.awaitRound("node_1", 5)
			require.NoError(t, r.cmd.Process.Signal(tt.signal))
			require.Equal(t, tt.code, r.wait())
			requireNoProcess(t, home)
			require.NotContains(t, r.stderr.String(), "Error:")
			require.NotNil(t, r.summary, "no summary")
			require.Equal(t, store.RunStopped, r.summary.State)
			stopped := status(t, home)
			require.Equal(t, store.RunStopped, stopped.State)
			for _, n := range stopped.Nodes {
				require.Equal(t, string(event.StateStopped), n.State, n.ID)
				checkpoint := r.await("checkpoint of "+n.ID, func(e event.Event) bool { return e.Type == event.TypeCheckpoint && e.Node == n.ID })
				require.Equal(t, n.Round, checkpoint.Checkpoint.Round, "rounds done and rounds saved by %s", n.ID)
				require.FileExists(t, checkpoint.Checkpoint.Path)
			}
		})
	}
}

// The second signal doesn't wait for a stuck node.
func TestSecondSignalStopsNow(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	r := start(t, home, "--rounds", "100000", "--nodes", "1")
	r.awaitRound("node_0", 2)
	send(t, r.node("node_0"), syscall.SIGSTOP)
	require.NoError(t, r.cmd.Process.Signal(syscall.SIGINT))
	require.Eventually(t, func() bool { return strings.Contains(r.stderr.String(), "Repeat to stop now.") }, patience, 10*time.Millisecond)
	first := time.Now()
	require.Eventually(t, func() bool { return time.Since(first) > interrupt.Echo }, patience, 10*time.Millisecond)
	second := time.Now()
	require.NoError(t, r.cmd.Process.Signal(syscall.SIGINT))
	require.Equal(t, 130, r.wait())
	require.Less(t, time.Since(second), 10*time.Second, "it waited for the node that is stuck")
	requireNoProcess(t, home)
	killed := r.await("exit of node_0", func(e event.Event) bool { return e.Type == event.TypeExit && e.Node == "node_0" })
	require.Equal(t, -1, *killed.ExitCode)
	require.Equal(t, store.RunStopped, status(t, home).State)
}

// When stdout's reader leaves (swarm up | head -1), the run neither ends nor fails.
func TestClosedStdout(t *testing.T) {
	t.Parallel()
	for _, output := range []string{"text", "json"} {
		t.Run(output, func(t *testing.T) {
			t.Parallel()
			home := t.TempDir()
			cmd := swarmCommand(t, home, append([]string{"up", "--name", "e", "--rounds", "20", "-o", output}, tinyRun("--nodes", "1")...)...)
			read, write, err := os.Pipe()
			require.NoError(t, err)
			var stderr lockedBuffer
			cmd.Stdout, cmd.Stderr = write, &stderr
			require.NoError(t, cmd.Start())
			require.NoError(t, write.Close())
			first, err := bufio.NewReaderSize(read, 16).ReadString('\n')
			require.NoError(t, err)
			require.NotEmpty(t, first)
			require.NoError(t, read.Close())
			require.Equal(t, 0, waitFor(t, cmd), stderr.String())
			require.NotContains(t, stderr.String(), "Error:")
			s := status(t, home)
			require.Equal(t, store.RunDone, s.State)
			require.Equal(t, 20, s.Round)
		})
	}
}

// Two runs of one experiment at a time would write to each other's reports. Another experiment may run beside it.
func TestSecondUpOfTheSameExperiment(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	r := start(t, home, "--rounds", "100000", "--nodes", "1")
	r.awaitRound("node_0", 1)
	o := swarm(t, home, append([]string{"up", "--name", "e"}, tinyRun("--rounds", "1")...)...)
	require.Equal(t, 1, o.code)
	require.Empty(t, o.stdout)
	require.Equal(t, "Error: experiment e is running already (process "+strconv.Itoa(r.cmd.Process.Pid)+")\n"+
		"Try: swarm attach e, swarm down e, or --name OTHER for a second one\n", o.stderr)
	require.NoDirExists(t, filepath.Join(home, "runs", "e-2"))
	o = swarm(t, home, append([]string{"up", "--name", "other"}, tinyRun("--rounds", "1", "--nodes", "1")...)...)
	require.Equal(t, 0, o.code, o.stderr)
	require.NoError(t, r.cmd.Process.Signal(syscall.SIGINT))
	require.Equal(t, 130, r.wait())
}

// A node that may not restart is given up: the others don't wait for it and finish, and the exit code reports lost
// nodes.
func TestTheOthersFinishWithoutALostNode(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	r := start(t, home, append(longRun(), "--max-restarts", "0")...)
	engine := r.engine("node_1")
	r.awaitRound("node_1", 3)
	send(t, engine, syscall.SIGKILL)
	require.Equal(t, fail.ExitLost, r.wait(), r.stderr)

	after := status(t, home)
	require.Equal(t, store.RunLost, after.State)
	require.Equal(t, longRounds, after.Round, "rounds of the node that is left")
	require.Equal(t, string(event.StateDone), after.Nodes[0].State)
	require.Equal(t, string(event.StateGivenUp), after.Nodes[1].State)
	require.Equal(t, event.CauseEngine, after.Nodes[1].Cause)
	requireNoProcess(t, home)
}

// When the disk fills up, the run ends in order, with one line, instead of stalling nodes on paid hardware.
func TestStopsBeforeTheDiskIsFull(t *testing.T) {
	t.Parallel()
	home := mount(t, 0, "size=260m")
	r := start(t, home, "--rounds", "100000", "--checkpoint-every", "10")
	r.awaitRound("node_1", 3)
	var disk syscall.Statfs_t
	require.NoError(t, syscall.Statfs(home, &disk))
	fill := make([]byte, int64(disk.Bavail)*disk.Bsize-(20<<20)) // leaves 20 MiB, less than the reserve and enough to checkpoint
	require.NoError(t, os.WriteFile(filepath.Join(home, "fill"), fill, 0o600))
	require.Equal(t, fail.ExitFailed, r.wait(), r.stderr)
	require.Regexp(t, `(?m)^Error: stopped because the disk is nearly full: \S+ has \d+ MB free\nTry: free some space, or --home on a larger disk$`, r.stderr.String())

	after := status(t, home)
	require.Equal(t, store.RunStopped, after.State)
	require.Contains(t, after.Message, "disk is nearly full")
	for _, n := range after.Nodes {
		require.Equal(t, string(event.StateStopped), n.State, n.Message)
	}
	requireNoProcess(t, home)
}
