package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/launcher/workers"
	"github.com/sapo-swarm/swarm/metrics/event"
)

// A worker whose name is taken gets another name. The same command is then that worker again, not a third one.
func TestTheSameCommandIsTheSameWorkerAlsoWhereItsNameWasTaken(t *testing.T) {
	t.Parallel()
	home, first, second := t.TempDir(), t.TempDir(), t.TempDir()
	up := start(t, home, "--listen", "127.0.0.1:0", "--nodes", "0", "--rounds", "200")
	invitation := invitationOf(t, up)
	for _, home := range []string{first, second, second} {
		worker := joinTiny(t, home, invitation, "--name", "anna")
		worker.await("its node", func(e event.Event) bool { return e.Type == event.TypeJoin })
		require.NoError(t, worker.cmd.Process.Signal(os.Interrupt))
		worker.wait()
	}
	listed := swarm(t, home, "workers")
	require.Contains(t, listed.stdout, "anna-2", listed.stderr)
	require.NotContains(t, listed.stdout, "anna-3")
	require.NoError(t, up.cmd.Process.Signal(os.Interrupt))
	up.wait()

	kept, err := filepath.Glob(filepath.Join(second, "joined", "*.json"))
	require.NoError(t, err)
	require.Len(t, kept, 1)
	info, err := os.Stat(kept[0])
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm(), "credentials are for their owner alone")
}

// If a crash removes rounds from a worker's own database, its node reports them again from its journal. Then the
// worker's and the coordinator's databases have every round.
func TestAWorkersOwnDatabaseIsMadeWhole(t *testing.T) {
	t.Parallel()
	home, anna := t.TempDir(), t.TempDir()
	up := start(t, home, "--listen", "127.0.0.1:0", "--nodes", "0", "--rounds", "100000")
	invitation := invitationOf(t, up)
	var last int
	for again := range 2 {
		worker := joinTiny(t, anna, invitation, "--name", "anna")
		worker.await("some rounds", func(e event.Event) bool { return e.Type == event.TypeRound && !e.Replayed && e.Round.Round >= last+4 })
		require.NoError(t, worker.cmd.Process.Signal(os.Interrupt))
		worker.wait()
		got := workedRounds(t, anna, "e-1.anna-1")
		require.Len(t, got, 1)
		for node, rounds := range got {
			require.Equal(t, upTo(rounds[0], rounds[len(rounds)-1]+1), rounds, "life %d of %s", again, node)
			last = rounds[len(rounds)-1]
		}
		if again == 0 {
			alter(t, anna, fmt.Sprintf("DELETE FROM rounds WHERE run = 'e-1.anna-1' AND round = %d", last))
		}
	}
	require.NoError(t, up.cmd.Process.Signal(os.Interrupt))
	up.wait()
	require.Equal(t, workedRounds(t, anna, "e-1.anna-1"), workedRounds(t, home, "e-1"))
}

// A revoked worker gets an error that says so and whom to ask, because the same command would be refused again. A
// home that only joined names the place where the swarm's workers are listed.
func TestAWorkerThatIsShutOutIsToldWhomToAsk(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	up := start(t, home, "--listen", "127.0.0.1:0", "--nodes", "0", "--rounds", "100000")
	invitation := invitationOf(t, up)
	for verb, want := range map[string]string{
		"ban":    "the coordinator banned worker %s: ask its owner to lift the ban (there: swarm workers unban %[1]s)",
		"revoke": "the coordinator revoked worker %s: ask its owner for a new invitation (there: swarm workers invite)",
	} {
		own, name := t.TempDir(), "who-"+verb
		cmd := swarmCommand(t, own, "join", invitation, "--model", tinyModel(), "--tasks-file", items(), "--device", "cpu", "--nodes", "1", "--name", name)
		cmd.Env = append(cmd.Env, marker(own))
		ended := make(chan outcome, 1)
		go func() { ended <- finish(t, cmd) }()
		up.await(name+"'s node", func(e event.Event) bool { return e.Type == event.TypeJoin && e.Worker == name })
		require.Equal(t, fail.ExitDone, swarm(t, home, "workers", verb, name).code)
		got := <-ended
		require.Equal(t, fail.ExitUsage, got.code, got.stderr)
		require.Contains(t, got.stdout, fmt.Sprintf(want, name))
		require.NotContains(t, got.stdout+got.stderr, "the same command again")
		require.Regexp(t, `Error: .*worker `+name+`.*\nTry: ask the coordinator's owner`, got.stderr)

		listed := swarm(t, own, "workers")
		require.Contains(t, listed.stdout, "This host coordinates no run. It has joined another host's (e-1."+name+"-1), where swarm workers lists the workers.\n")
		named := swarm(t, own, "workers", "e-1."+name+"-1")
		require.Equal(t, fail.ExitUsage, named.code)
		require.Contains(t, named.stderr, "is this host's part of a run that another host coordinates: only that host lists the workers\nTry: swarm workers on the coordinator")
	}
	require.NoError(t, up.cmd.Process.Signal(os.Interrupt))
	up.wait()
}

// A home may coordinate one run and be a worker of another. swarm workers shows the run that it coordinates, even if
// the other is newer.
func TestWorkersAreThoseOfTheRunThatThisHomeCoordinates(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	own := swarm(t, home, append([]string{"up", "--name", "mine", "--rounds", "2"}, tinyRun()...)...)
	require.Equal(t, fail.ExitDone, own.code, own.stderr)
	elsewhere := t.TempDir()
	up := start(t, elsewhere, "--listen", "127.0.0.1:0", "--nodes", "0", "--rounds", "8")
	worker := joinTiny(t, home, invitationOf(t, up), "--name", "anna")
	require.Equal(t, fail.ExitDone, worker.wait(), worker.stderr)
	require.Equal(t, fail.ExitDone, up.wait(), up.stderr)
	var document workers.Listing
	require.NoError(t, json.Unmarshal([]byte(swarm(t, home, "workers", "-o", "json").stdout), &document))
	require.Equal(t, "mine-1", document.Run)
	require.Equal(t, "e-1.anna-1", document.Joined)
	require.Equal(t, "No worker has joined run mine-1.\n", swarm(t, home, "workers").stdout)
}
