package e2e

import (
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/sapo-swarm/swarm/internal/layout"
	"github.com/sapo-swarm/swarm/launcher/lifecycle"
)

// verdict compares a stormy run's home with a calm one's. The error has the first difference of each kind.
func verdict(t *testing.T, calm, stormy string, rounds int) error {
	var errs []error
	for _, q := range []struct{ what, query string }{
		{"rounds", roundsQuery},
		{"task rewards", `SELECT node, round, task, completions, reward_sum FROM task_rewards WHERE run = 'e-1' ORDER BY round, node, task`},
		{"peers", `SELECT node, round, peer, available, rejected, filtered, used, late FROM peers WHERE run = 'e-1' ORDER BY round, node, peer`},
		{"evaluations", `SELECT node, round, question_set, questions, generations, temperature, format_rate, completions_mean_length, correct, reward_sum
FROM evals WHERE run = 'e-1' ORDER BY round, node`},
		{"evaluated questions", `SELECT node, round, question, task, correct, reward_sum FROM eval_questions WHERE run = 'e-1' ORDER BY round, node, question`},
		{"nodes", `SELECT node, state, rounds_done, last_round, last_reward, cumulative_reward FROM nodes WHERE run = 'e-1' ORDER BY node`},
		{"runs", `SELECT run, experiment, state, seed, rounds, nodes FROM runs ORDER BY run`},
		{"last checkpoints", fmt.Sprintf(`SELECT node, round, weight_hash FROM checkpoints WHERE run = 'e-1' AND round = %d ORDER BY node`, rounds)},
	} {
		errs = append(errs, sameRows(q.what, q.query, calm, stormy))
	}
	errs = append(errs, sameHashes(calm, stormy), nobodyLeft(stormy), sameFiles(calm, stormy), locksFree(stormy), passesVerify(t, stormy))
	for node := range stormNodes {
		errs = append(errs, journalWhole(filepath.Join(stormy, "runs", stormRun, fmt.Sprintf("node_%d", node)), rounds))
	}
	return errors.Join(errs...)
}

// roundsQuery selects all columns of a round except times.
const roundsQuery = `SELECT node, round, reward, reward_std, training_reward, frac_reward_zero_std, format_rate, completions, completions_mean_length,
completions_clipped_ratio, loss, kl, grad_norm, entropy, clip_ratio_low, clip_ratio_high, external_clip_ratio, external_dropped, external_ess, steps, trained_own, trained_external, late, non_finite
FROM rounds WHERE run = 'e-1' ORDER BY round, node`

// tableRows returns a query's rows, each as text that keeps every bit of its numbers.
func tableRows(home, query string) ([]string, error) {
	db, err := sql.Open("sqlite3", "file:"+filepath.Join(home, "swarm.db")+"?mode=ro")
	if err != nil {
		return nil, err
	}
	defer db.Close()
	result, err := db.Query(query)
	if err != nil {
		return nil, err
	}
	defer result.Close()
	columns, err := result.Columns()
	if err != nil {
		return nil, err
	}
	var list []string
	for result.Next() {
		values, into := make([]any, len(columns)), make([]any, len(columns))
		for i := range values {
			into[i] = &values[i]
		}
		if err := result.Scan(into...); err != nil {
			return nil, err
		}
		var b strings.Builder
		for i, v := range values {
			fmt.Fprintf(&b, "%s=%v ", columns[i], v)
		}
		list = append(list, b.String())
	}
	return list, result.Err()
}

// sameRows reports the first row that differs between two homes' databases.
func sameRows(what, query, calm, stormy string) error {
	want, err := tableRows(calm, query)
	if err != nil {
		return fmt.Errorf("%s of the calm run: %w", what, err)
	}
	got, err := tableRows(stormy, query)
	if err != nil {
		return fmt.Errorf("%s of the storm: %w", what, err)
	}
	if len(want) == 0 {
		return fmt.Errorf("the calm run has no %s", what)
	}
	for i := range min(len(want), len(got)) {
		if want[i] != got[i] {
			return fmt.Errorf("%s differ first at row %d:\n calm  %s\n storm %s", what, i, want[i], got[i])
		}
	}
	if len(want) != len(got) {
		return fmt.Errorf("%s: %d rows in the calm run, %d in the storm", what, len(want), len(got))
	}
	return nil
}

// sameHashes reports the first checkpoint of the same round and node whose weights differ.
func sameHashes(calm, stormy string) error {
	const query = `SELECT node, round, weight_hash FROM checkpoints WHERE run = 'e-1' ORDER BY round, node`
	want, err := tableRows(calm, query)
	if err != nil {
		return err
	}
	got, err := tableRows(stormy, query)
	if err != nil {
		return err
	}
	known := map[string]string{}
	for _, row := range want {
		key, hash, _ := strings.Cut(row, "weight_hash=")
		known[key] = hash
	}
	for _, row := range got {
		key, hash, _ := strings.Cut(row, "weight_hash=")
		if at, both := known[key]; both && at != hash {
			return fmt.Errorf("weights differ first at checkpoint %s: calm %s, storm %s", key, at, hash)
		}
	}
	return nil
}

// nobodyLeft waits a moment for the last processes of a home to end.
func nobodyLeft(home string) error {
	return pollFor(5*time.Second, "end of the processes that are left behind", func() (bool, error) { return len(processes(home)) == 0, nil })
}

var numbers = regexp.MustCompile(`[0-9]+`)

// setAside matches the name of a damaged journal segment that was moved aside.
var setAside = regexp.MustCompile(`^journal-[0-9]{8}\.log\.damaged(-[0-9]+)?$`)

// sameFiles reports kinds of files that a stormy home has and a calm one has not. Rotated logs may differ, and
// damaged journals are moved aside.
func sameFiles(calm, stormy string) error {
	known, err := fileKinds(calm)
	if err != nil {
		return err
	}
	found, err := fileKinds(stormy)
	if err != nil {
		return err
	}
	var errs []error
	for kind, path := range found {
		base := filepath.Base(path)
		if _, ok := known[kind]; !ok && !strings.HasPrefix(base, "log.txt") && !setAside.MatchString(base) {
			errs = append(errs, fmt.Errorf("%s is left behind", path))
		}
	}
	return errors.Join(errs...)
}

// fileKinds maps the kinds of files in a home, which are names with numbers removed, to one file of each.
func fileKinds(home string) (map[string]string, error) {
	kinds := map[string]string{}
	err := filepath.WalkDir(home, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(home, path)
		if entry.IsDir() && (name == "engine" || strings.HasSuffix(name, "jetstream")) {
			return fs.SkipDir // files of the program and of the broker
		}
		kinds[numbers.ReplaceAllString(name, "N")] = name
		return err
	})
	return kinds, err
}

// locksFree reports a lock file that is still held.
func locksFree(home string) error {
	o, err := lifecycle.LockExperiment(layout.Home(home), "e")
	if err != nil {
		return fmt.Errorf("a lock is left behind: %w", err)
	}
	o.Release()
	return nil
}

// passesVerify runs swarm verify, which replays the run from its journals.
func passesVerify(t *testing.T, home string) error {
	cmd := exec.Command(stormProgram(), "--home", home, "verify", stormRun)
	cmd.Env = stormEnviron(t, home)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("swarm verify: %w: %s", err, out)
	}
	t.Logf("swarm verify: %s", out)
	return nil
}
