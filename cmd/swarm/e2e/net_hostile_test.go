package e2e

import (
	"context"
	"flag"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Flags that make net-test sets. The defaults are for every test run.
var (
	hostileMessages = flag.Int("hostile.messages", 3000, "messages of the hostile worker")
	hostileSeed     = flag.Uint64("hostile.seed", 1, "seed of the hostile worker")
	hostileRounds   = flag.Int("hostile.rounds", 40, "rounds of the honest nodes that are compared, at most")
	hostileGrowth   = flag.Float64("hostile.growth", 24, "megabytes by which the coordinator may grow in the second half of the attack")
)

const hostileDeadline = 4 // seconds: barrier_deadline

// Two workers with valid credentials misbehave while two honest nodes train. One sends every kind of bad message, the
// other stays inconspicuous. The coordinator keeps running and its memory stays flat. The honest nodes' rewards,
// losses and weights equal those of a run without the attackers, to the last bit. The database has nothing from the
// attackers except what their own nodes may report.
func TestHostileWorker(t *testing.T) {
	t.Parallel()
	args := func(rounds int) []string {
		return append([]string{"up", "--name", "e", "-o", "json", "--listen", "127.0.0.1:0"}, tinyRun("--rounds", strconv.Itoa(rounds), "--seed", "5",
			"--checkpoint-every", "5", "--set", fmt.Sprintf("barrier_deadline=%d", hostileDeadline))...)
	}
	home := t.TempDir()
	r := startProgram(t, home, args(1000000)...)
	invitation := invitationOf(t, r)
	a, quiet := newAttacker(t, invitation, "mallory"), newAttacker(t, invitation, "eve")
	poisoning, stop := context.WithCancel(t.Context())
	var poisoned sync.WaitGroup
	poisoned.Go(func() { quiet.poison(poisoning) })
	memory := &memorySeries{pid: r.cmd.Process.Pid}
	began := time.Now()
	a.run(t, *hostileMessages, memory)
	require.Less(t, a.unanswered(), *hostileMessages/100+8, "requests that nobody answered:\n%s", a.table())
	took := time.Since(began)
	a.close()
	rounds := 0
	require.NoError(t, pollFor(patience, "8 rounds of the honest nodes", func() (bool, error) {
		rows, err := tableRows(home, `SELECT min(rounds_done) AS r FROM nodes WHERE run = 'e-1' AND worker = ''`)
		if err != nil || len(rows) != 1 {
			return false, err
		}
		_, err = fmt.Sscanf(rows[0], "r=%d", &rounds)
		return rounds >= 8, err
	}))
	stop()
	poisoned.Wait()
	quiet.close()
	require.NoError(t, r.cmd.Process.Signal(syscall.SIGTERM))
	require.Equal(t, 128+int(syscall.SIGTERM), waitFor(t, r.cmd), r.stderr)
	t.Logf("%d messages in %.1f s, beside %d rounds of honest nodes\n%s", *hostileMessages, took.Seconds(), rounds, a.table())
	t.Logf("within its rates, in time:\n%s", quiet.table())
	t.Log(memory.String())
	require.Less(t, memory.growth(), *hostileGrowth*1e6, "the coordinator's memory")

	rounds = min(rounds, *hostileRounds)
	calm := t.TempDir()
	require.Zero(t, finish(t, swarmCommand(t, calm, args(rounds)...)).code)
	for what, query := range map[string]string{
		"rounds":       strings.Replace(roundsQuery, "late, ", "", 1), // the deadline may pass without the attacker's rollouts
		"task rewards": `SELECT node, round, task, completions, reward_sum FROM task_rewards WHERE run = 'e-1' ORDER BY round, node, task`,
		"honest peers": `SELECT node, round, peer, available, rejected, filtered, used FROM peers WHERE run = 'e-1' AND peer IN ('node_0', 'node_1')
ORDER BY round, node, peer`,
		"weights": `SELECT node, round, weight_hash FROM checkpoints WHERE run = 'e-1' AND round % 5 = 0 ORDER BY node, round`,
	} {
		query = strings.Replace(query, "WHERE run = 'e-1'", fmt.Sprintf("WHERE run = 'e-1' AND node IN ('node_0', 'node_1') AND round < %d", rounds), 1)
		require.NoError(t, sameRows(what, query, calm, home))
	}
	left(t, home)
}

// left checks what the attackers left in the database.
func left(t *testing.T, home string) {
	t.Helper()
	rows, err := tableRows(home, `SELECT node FROM nodes WHERE run = 'e-1' AND worker = '' ORDER BY node`)
	require.NoError(t, err)
	require.Equal(t, []string{"node=node_0 ", "node=node_1 "}, rows)
	rows, err = tableRows(home, `SELECT DISTINCT worker AS w FROM nodes WHERE worker != '' UNION SELECT DISTINCT worker FROM workers`)
	require.NoError(t, err)
	require.Equal(t, []string{"w=eve ", "w=mallory "}, rows)
	rows, err = tableRows(home, `SELECT count(*) AS c FROM rounds WHERE reward < 0 OR reward > 1 OR round < 0 OR round > 1000000`)
	require.NoError(t, err)
	require.Equal(t, []string{"c=0 "}, rows)
	rows, err = tableRows(home, `SELECT used FROM peers JOIN nodes ON nodes.run = peers.run AND nodes.node = peers.peer
WHERE nodes.worker != '' AND used > 0 AND peers.node IN ('node_0', 'node_1')`)
	require.NoError(t, err)
	require.Empty(t, rows, "an honest node learnt from an attacker")
	rows, err = tableRows(home, `SELECT reason, count(*) AS batches FROM peers JOIN nodes ON nodes.run = peers.run AND nodes.node = peers.peer
WHERE nodes.worker = 'eve' AND rejected > 0 AND peers.node IN ('node_0', 'node_1') GROUP BY reason ORDER BY reason`)
	require.NoError(t, err)
	require.NotEmpty(t, rows, "nothing poisonous reached an honest node")
	t.Logf("what the honest nodes refused:\n%s", strings.Join(rows, "\n"))
}
