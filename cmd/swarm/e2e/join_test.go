package e2e

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/launcher/workers"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/store"
	"github.com/sapo-swarm/swarm/node/exchange"
	"github.com/sapo-swarm/swarm/node/exchange/natsbus"
)

// invitationOf waits for the coordinator's invitation.
func invitationOf(t *testing.T, r *running) string {
	t.Helper()
	path := filepath.Join(r.home, "workers", "invitation")
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		if strings.Contains(r.stderr.String(), "Others join with the command in "+path) {
			text, err := os.ReadFile(path)
			require.NoError(t, err)
			return strings.TrimSpace(string(text))
		}
		require.True(t, time.Now().Before(deadline), "no invitation; stderr: %s", r.stderr)
	}
}

// joinTiny starts a worker with the tiny model on the CPU.
func joinTiny(t *testing.T, home, invitation string, more ...string) *running {
	t.Helper()
	return startCommand(t, home, append([]string{
		"join", invitation, "-o", "json", "--model", tinyModel(), "--tasks-file", items(), "--device", "cpu", "--nodes", "1",
	}, more...)...)
}

// workedRounds returns a run's rounds in a home's database, by node.
func workedRounds(t *testing.T, home, run string) map[string][]int {
	t.Helper()
	reader, err := store.OpenReader(t.Context(), filepath.Join(home, "swarm.db"))
	require.NoError(t, err)
	defer reader.Close()
	rewards, err := reader.RoundRewards(t.Context(), run)
	require.NoError(t, err)
	rounds := map[string][]int{}
	for _, r := range rewards {
		rounds[r.Node] = append(rounds[r.Node], r.Round)
	}
	return rounds
}

func upTo(from, to int) (list []int) {
	for r := from; r < to; r++ {
		list = append(list, r)
	}
	return list
}

// stillShared tells whether the message bus of an ended run holds a node's rollouts of a round.
func stillShared(t *testing.T, home, run, node string, round int) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	server, err := natsbus.Start(natsbus.ServerOptions{Dir: filepath.Join(home, "runs", run, "exchange")})
	require.NoError(t, err)
	defer server.Shutdown()
	bus, err := natsbus.Dial(ctx, natsbus.Options{URL: server.URL(), Token: server.Token(), Run: run, Node: "reader"})
	require.NoError(t, err)
	defer bus.Close()
	found, err := bus.Gather(ctx, round, []string{node}, exchange.Barrier{})
	require.NoError(t, err)
	return found[0] != nil
}

// A host without nodes coordinates two workers. Its database has their rounds, each once, and each worker trained on
// the other's rollouts.
func TestWorkersTrainForAHostWithoutNodes(t *testing.T) {
	t.Parallel()
	home, anna, ben := t.TempDir(), t.TempDir(), t.TempDir()
	const rounds = 12
	up := start(t, home, "--listen", "127.0.0.1:0", "--nodes", "0", "--rounds", "12", "--checkpoint-every", "2")
	invitation := invitationOf(t, up)
	joined := []*running{joinTiny(t, anna, invitation, "--name", "anna"), joinTiny(t, ben, invitation, "--name", "ben")}
	up.await("anna", func(e event.Event) bool { return e.Type == event.TypeJoin && e.Worker == "anna" })
	up.await("ben", func(e event.Event) bool { return e.Type == event.TypeJoin && e.Worker == "ben" })
	for _, w := range joined {
		require.Equal(t, fail.ExitDone, w.wait(), w.stderr)
	}
	require.Equal(t, fail.ExitDone, up.wait(), up.stderr)

	got := workedRounds(t, home, "e-1")
	require.Len(t, got, 2)
	shared := 0
	for node, list := range got {
		require.Equal(t, upTo(list[0], rounds), list, node)
	}
	for _, e := range up.events {
		if e.Type == event.TypeRound {
			shared += e.Round.TrainedExternal
		}
	}
	require.Positive(t, shared, "nobody learnt from anybody")
	for node, list := range got { // old rollouts are dropped as rounds end
		require.False(t, stillShared(t, home, "e-1", node, list[0]), "%s's round %d", node, list[0])
		require.True(t, stillShared(t, home, "e-1", node, rounds-1), "%s's last round", node)
	}

	var document workers.Listing
	listed := swarm(t, home, "workers", "-o", "json")
	require.NoError(t, json.Unmarshal([]byte(listed.stdout), &document), listed.stderr)
	require.Len(t, document.Workers, 2)
	for _, w := range document.Workers {
		require.Equal(t, "left", string(w.State), w.Worker)
		require.Positive(t, w.Rounds)
	}
	text := swarm(t, home, "workers")
	require.Equal(t, fail.ExitDone, text.code, text.stderr)
	require.Contains(t, text.stdout, "anna")
	requireNoProcess(t, home)
	requireNoProcess(t, anna)
	requireNoProcess(t, ben)

	// Each worker has its own part in its own database.
	own := swarm(t, anna, "status", "-o", "json")
	require.Equal(t, fail.ExitDone, own.code, own.stderr)
	require.Contains(t, own.stdout, `"e-1.anna-1"`)
}

// A worker that joins a running run starts at the current round, and the coordinator's own nodes learn from it.
func TestAWorkerJoinsARunThatGoesOn(t *testing.T) {
	t.Parallel()
	home, anna := t.TempDir(), t.TempDir()
	const rounds = 60
	up := start(t, home, "--listen", "127.0.0.1:0", "--rounds", "60")
	up.awaitRound("node_0", 3)
	worker := joinTiny(t, anna, invitationOf(t, up), "--name", "anna")
	joined := up.await("anna", func(e event.Event) bool { return e.Type == event.TypeJoin && e.Worker == "anna" })
	require.Greater(t, joined.RoundIndex, 3)
	require.Equal(t, fail.ExitDone, worker.wait(), worker.stderr)
	require.Equal(t, fail.ExitDone, up.wait(), up.stderr)
	got := workedRounds(t, home, "e-1")
	require.Equal(t, upTo(0, rounds), got["node_0"])
	require.Equal(t, upTo(0, rounds), got["node_1"])
	require.Equal(t, upTo(joined.RoundIndex, rounds), got[joined.Node])
	used := 0
	for _, e := range up.events {
		if e.Type == event.TypeRound && e.Worker == "" {
			for _, p := range e.Round.Peers {
				if p.Node == joined.Node {
					used += p.Used
				}
			}
		}
	}
	require.Positive(t, used, "nobody learnt from the worker")
}

// Two hosts train through a folder, configured with the predecessor's variables.
func TestTwoHostsShareAFolder(t *testing.T) {
	t.Parallel()
	home, ben, shared := t.TempDir(), t.TempDir(), t.TempDir()
	const rounds = 100
	up := start(t, home, "--shared", shared, "--nodes", "1", "--rounds", "100", "--set", "barrier_deadline=120")
	up.awaitRound("node_0", 1)
	send(t, up.node("node_0"), syscall.SIGSTOP) // otherwise its rounds would end before the folder is read; the launcher continues it after 5 s
	worker := swarmCommand(t, ben, "join", "--model", tinyModel(), "--tasks-file", items(), "--device", "cpu", "--nodes", "1")
	worker.Env = append(worker.Env, "GDRIVE_PATH="+shared, "EXPERIMENT_NAME=e", "NODE_ID=node_1", "NODE_ROLE=worker", marker(ben))
	done := finish(t, worker)
	require.Equal(t, fail.ExitDone, done.code, done.stderr)
	require.Equal(t, fail.ExitDone, up.wait(), up.stderr)
	got := workedRounds(t, home, "e-1")
	require.Equal(t, upTo(0, rounds), got["node_0"])
	require.NotEmpty(t, got["node_1"])
	require.Equal(t, upTo(got["node_1"][0], rounds), got["node_1"])
	copies, err := filepath.Glob(filepath.Join(shared, "experiments", "e", "swarm", "*", "snapshots", "*"))
	require.NoError(t, err)
	if len(copies) == 0 {
		copies, err = filepath.Glob(filepath.Join(shared, "experiments", "e", "swarm", "snapshots", "*"))
		require.NoError(t, err)
	}
	require.NotEmpty(t, copies, "no copy of the database")
}
