package main

import (
	"bufio"
	"database/sql"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/store"
	"github.com/sapo-swarm/swarm/node/journal"
)

// loweredRun is a run whose alarm lowers the learning rate.
func loweredRun(rounds int, more ...string) []string {
	return append(append([]string{"up"}, tinyRun("--rounds", fmt.Sprint(rounds), "--name", "low", "--on-alarm", "lower-rate",
		"--checkpoint-every", "10")...), more...)
}

// forgeNorms makes gradient norms grow after 70 rounds without a growth in active groups, and forgets that the true
// ones may have raised an alarm. It returns what undoes the former.
func forgeNorms(t *testing.T, home string) (undo []string) {
	t.Helper()
	db, err := sql.Open("sqlite3", filepath.Join(home, "swarm.db"))
	require.NoError(t, err)
	defer db.Close()
	rows, err := db.Query(`SELECT printf('UPDATE rounds SET grad_norm = %!.17g, frac_reward_zero_std = %!.17g WHERE run = ''low-1'' AND node = ''%s'' AND round = %d',
	grad_norm, frac_reward_zero_std, node, round)
FROM rounds WHERE run = 'low-1' AND grad_norm IS NOT NULL`)
	require.NoError(t, err)
	defer rows.Close()
	for rows.Next() {
		var statement string
		require.NoError(t, rows.Scan(&statement))
		undo = append(undo, statement)
	}
	require.NoError(t, rows.Err())
	require.NotEmpty(t, undo)
	_, err = db.Exec(`UPDATE rounds SET grad_norm = CASE WHEN round < 70 THEN 1.0 ELSE 2.0 END, frac_reward_zero_std = 0; DELETE FROM events WHERE type = 'alarm'`)
	require.NoError(t, err)
	return undo
}

// loweredRates checks that a node's updates have the rates that the run's alarms say, and returns the hash of its last
// weights.
func loweredRates(t *testing.T, home, node string, alarms []store.Alarm, rounds int) string {
	t.Helper()
	dir := filepath.Join(home, "runs", "low-1", node)
	var base float64
	seen := 0
	for r, err := range journal.Rounds(dir, 0) {
		require.NoError(t, err)
		rate := r.Trained.Update.LearningRate
		if r.Round == 0 {
			base = rate
		}
		want := base
		for _, a := range alarms {
			if a.LowerFrom <= r.Round {
				want /= configs.AlarmLowerBy
			}
		}
		require.Equal(t, want, rate, "round %d", r.Round)
		seen++
	}
	require.Equal(t, rounds, seen)
	data, err := os.ReadFile(filepath.Join(dir, fmt.Sprintf("checkpoint-%08d.json", rounds)))
	require.NoError(t, err)
	var manifest struct {
		WeightHash string `json:"weight_hash"`
	}
	require.NoError(t, json.Unmarshal(data, &manifest))
	return manifest.WeightHash
}

// A run whose learning rate is lowered ends with the same bits when its coordinator is killed before and after the
// round from which the lower rate holds, and verify makes the same of it.
func TestALoweredRateIsTheSameAfterAKill(t *testing.T) {
	t.Parallel()
	const begun, rounds = 90, 125
	home, killed := t.TempDir(), filepath.Join(t.TempDir(), "killed")
	o := swarm(t, home, loweredRun(begun)...)
	require.Zero(t, o.code, o.stderr)
	undo := forgeNorms(t, home)
	require.NoError(t, os.CopyFS(killed, os.DirFS(home)))

	o = swarm(t, home, loweredRun(rounds)...)
	require.Zero(t, o.code, o.stderr)
	alarms := alarmsOf(t, home)
	require.Equal(t, event.Alarm{Round: 82, Recent: 1.65, Reference: 1, ExpectedGrowth: 1, Action: event.AlarmLower, LowerFrom: 102}, alarms[0].Alarm)
	require.Contains(t, o.stdout, "; the learning rate is lower from round 102 on. Try: ")

	for _, at := range []int{95, 105} { // the alarm is raised when the run goes on
		killAt(t, killed, at, loweredRun(rounds, "-o", "json")...)
	}
	o = swarm(t, killed, loweredRun(rounds)...)
	require.Zero(t, o.code, o.stderr)
	again := alarmsOf(t, killed)
	for i := range again {
		again[i].Time = alarms[min(i, len(alarms)-1)].Time
	}
	require.Equal(t, alarms, again)
	for _, node := range []string{"node_0", "node_1"} {
		require.Equal(t, loweredRates(t, home, node, alarms, rounds), loweredRates(t, killed, node, alarms, rounds), node)
	}

	db, err := sql.Open("sqlite3", filepath.Join(killed, "swarm.db"))
	require.NoError(t, err)
	defer db.Close()
	for _, statement := range undo {
		_, err := db.Exec(statement)
		require.NoError(t, err)
	}
	require.NoError(t, db.Close())
	o = swarm(t, killed, "verify", "low-1")
	require.Zero(t, o.code, o.stdout+o.stderr)

	o = swarm(t, home, loweredRun(rounds+10, "--on-alarm", "warn")...)
	require.Equal(t, 2, o.code, "it decides what is learned")
	require.Contains(t, o.stderr, `on_alarm "lower-rate" → "warn"`)
}

func alarmsOf(t *testing.T, home string) []store.Alarm {
	t.Helper()
	reader, err := store.OpenReader(t.Context(), filepath.Join(home, "swarm.db"))
	require.NoError(t, err)
	defer reader.Close()
	alarms, err := reader.Alarms(t.Context(), "low-1")
	require.NoError(t, err)
	require.NotEmpty(t, alarms)
	return alarms
}

// killAt kills a run's coordinator once a node has done a round.
func killAt(t *testing.T, home string, round int, args ...string) {
	t.Helper()
	cmd := swarmCommand(t, home, args...)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, event.MaxLine)
	for lines.Scan() {
		var e event.Event
		if json.Unmarshal(lines.Bytes(), &e) == nil && e.Round != nil && e.Round.Round >= round {
			require.NoError(t, cmd.Process.Kill())
			break
		}
	}
	_ = cmd.Wait() // killed, or done before
}

// The rate of nodes that the coordinator does not tell is not its to lower.
func TestARateThatIsNotTheCoordinatorsIsNotLowered(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	o := swarm(t, home, loweredRun(1, "--listen", "127.0.0.1:0")...)
	require.Equal(t, 2, o.code)
	require.Contains(t, o.stderr, "Error: --on-alarm lower-rate is for nodes of one host: those of other hosts are not told\nTry: --on-alarm stop\n")
	o = swarm(t, home, "up", "--node-command", "true", "--on-alarm", "lower-rate", "--device", "cpu", "--nodes", "1", "--rounds", "1")
	require.Equal(t, 2, o.code)
	require.Contains(t, o.stderr, "a --node-command decides its learning rate itself")
}
