package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/store/extract"
	"github.com/sapo-swarm/swarm/metrics/store/sqlite"
)

// FormatSwarm is the format of runs imported from another home of this program.
const FormatSwarm = "swarm"

// Further outcomes of an import, used only by ImportRuns.
const (
	ImportOwn   = "own"   // the run was recorded here and is not imported
	ImportOlder = "older" // the imported run has more rows than the new one, and stays
	ImportGoing = "going" // the run had not ended when the file was written, and is left out
)

// ImportedRun reports the import of one run of another database.
type ImportedRun struct {
	Outcome    string `json:"outcome"`
	Run        string `json:"run"`        // key in this database; empty: not imported
	Source     string `json:"source_run"` // key in the source
	Experiment string `json:"experiment"`
	Seed       int64  `json:"seed"`
	State      string `json:"state"`
	Nodes      int    `json:"nodes"`
	Rounds     int    `json:"rounds"`      // planned
	RoundsDone int    `json:"rounds_done"` // by the slowest node
}

// importNotes holds the notes of an import of FormatSwarm.
type importNotes struct {
	Run  string `json:"run"`  // key in the source
	Rows int    `json:"rows"` // sum over all tables
}

// ImportRuns imports the ended runs of another database in one transaction, in the form that Extract writes. Runs are
// identical if experiment, seed and first start are equal. A recorded run stays, and an imported run is replaced by a
// later state of it. A run keeps its key if that is free, and otherwise gets the next key of its experiment. With dry
// nothing is written. ImportRuns returns an entry per run, oldest first. It returns an *Error that names from's file if
// the file has values that no run of this program can have.
func (s *Store) ImportRuns(ctx context.Context, from *Reader, dry bool) ([]ImportedRun, error) {
	all, err := from.Runs(ctx, Filter{})
	if err != nil {
		return nil, err
	}
	// Runs are copied from an extract that this process writes, with our tables and checks, so that only values of an
	// untrusted file are used.
	dir, err := os.MkdirTemp("", "swarm-import-")
	if err != nil {
		return nil, fmt.Errorf("import %s: %w", from.Name(), err)
	}
	defer os.RemoveAll(dir)
	made, labels, err := extractTo(ctx, from, filepath.Join(dir, "all.db"), all)
	if err != nil {
		return nil, err
	}
	defer made.Close()
	taken, err := made.Runs(ctx, Filter{}) // check the data that is copied
	if err != nil {
		return nil, named(err, from.Name())
	}
	var out []ImportedRun
	var whole []Totals // ended runs
	for _, r := range taken {
		x := ImportedRun{
			Source: r.Run.Run, Experiment: r.Experiment, Seed: r.Seed, State: r.State, Nodes: r.Run.Nodes, Rounds: r.Run.Rounds, RoundsDone: r.RoundsDone,
		}
		if err := checkImported(r); err != nil {
			return nil, &Error{Path: from.Name(), Reason: "damaged", Err: err}
		}
		if x.State == RunRunning {
			x.Outcome = ImportGoing
		} else {
			whole = append(whole, r)
		}
		out = append(out, x)
	}
	sums := startDigests(ctx, from, made, labels, dir, whole)
	err = s.importRuns(ctx, made, from.Name(), out, sums, dry)
	if err = errors.Join(err, sums.close()); err != nil {
		return nil, sqlite.Explain(s.path, err)
	}
	return out, nil
}

// extractTo writes an extract of runs for internal use, and opens it.
func extractTo(ctx context.Context, from *Reader, path string, runs []Totals) (*Reader, extract.Labels, error) {
	keys := make([]string, len(runs))
	for i, r := range runs {
		keys[i] = r.Run.Run
	}
	var labels extract.Labels
	if _, err := extract.Fill(ctx, from.source(), path, keys, &labels); err != nil {
		return nil, labels, named(sqlite.Explain(from.path, err), from.Name())
	}
	made, err := OpenReader(ctx, path)
	return made, labels, err
}

// checkImported rejects names that are invalid for files or lines of text, and times in the future.
func checkImported(r Totals) error {
	latest := event.Now() + 24*3600 // allow for differing clocks
	switch {
	case !ValidExperiment(r.Experiment):
		return fmt.Errorf("%.80q is not an experiment name", r.Experiment)
	case !slices.Contains([]string{RunRunning, RunDone, RunStopped, RunLost, RunFailed}, r.State):
		return fmt.Errorf("run %.80q has an unknown state: %.80q", r.Run.Run, r.State)
	case !(max(r.Started, r.Resumed, r.Ended) < latest):
		return fmt.Errorf("run %.80q has a time in the future", r.Run.Run)
	}
	return nil
}

func (s *Store) importRuns(ctx context.Context, from *Reader, name string, runs []ImportedRun, sums *digests, dry bool) (err error) {
	conn, err := s.db.Conn(ctx) // ATTACH is per connection
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	if _, err := conn.ExecContext(ctx, "ATTACH ? AS incoming", sqlite.DSN(from.path, url.Values{"mode": {"ro"}})); err != nil {
		return err
	}
	defer func() {
		_, detached := conn.ExecContext(context.WithoutCancel(ctx), "DETACH incoming")
		err = errors.Join(err, detached)
	}()
	if _, err := conn.ExecContext(ctx, "PRAGMA cache_size = "+extract.BulkCache); err != nil {
		return err
	}
	tx, err := conn.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // no effect after a commit
	home := filepath.Dir(s.path)
	for i := range runs {
		if runs[i].Outcome == ImportGoing {
			continue
		}
		if err := takeRun(ctx, tx, home, sums, &runs[i]); err != nil {
			return fmt.Errorf("import %s: run %.80q: %w", name, runs[i].Source, err)
		}
	}
	for i := range runs { // a checksum exists only if all names in the run are valid
		if err := noteImport(ctx, tx, sums, &runs[i]); err != nil {
			return err
		}
	}
	if dry {
		return nil
	}
	return tx.Commit()
}

// takeRun copies one run, unless the database has an equal or better version.
func takeRun(ctx context.Context, tx *sql.Tx, home string, sums *digests, r *ImportedRun) (err error) {
	if r.Outcome, r.Run, err = placeFor(ctx, tx, home, sums, r); err != nil {
		return err
	}
	switch r.Outcome {
	case ImportNew:
	case ImportReplaced:
		if _, err := tx.ExecContext(ctx, "DELETE FROM main.runs WHERE run = ?", r.Run); err != nil {
			return err
		}
	default:
		return nil
	}
	for _, table := range extract.Tables() {
		if err := copyRun(ctx, tx, table, r); err != nil {
			return fmt.Errorf("%s: %w", table, err)
		}
	}
	return nil
}

// placeFor returns the outcome for a run, and its key in this database.
func placeFor(ctx context.Context, tx *sql.Tx, home string, sums *digests, r *ImportedRun) (outcome, key string, err error) {
	var was struct {
		format, digest sql.NullString
		rows           sql.NullInt64
	}
	err = tx.QueryRowContext(ctx, `SELECT own.run, format, digest, notes ->> 'rows'
FROM incoming.runs AS theirs JOIN main.runs AS own USING (experiment, seed, started)
LEFT JOIN main.imports ON main.imports.run = own.run WHERE theirs.run = ? ORDER BY format IS NOT NULL, own.run LIMIT 1`,
		r.Source).Scan(&key, &was.format, &was.digest, &was.rows)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		key, err = freeKey(ctx, tx, home, r)
		return ImportNew, key, err
	case err != nil:
		return "", "", err
	case !was.format.Valid:
		return ImportOwn, key, nil
	case was.format.String != FormatSwarm:
		return ImportUnchanged, key, nil
	}
	sum, rows, err := sums.wait(r.Source)
	switch {
	case err != nil:
		return "", "", err
	case was.digest.String == sum:
		return ImportUnchanged, key, nil
	case int64(rows) < was.rows.Int64:
		return ImportOlder, key, nil
	}
	return ImportReplaced, key, nil
}

// highestNumber bounds the numbers of runs that freeKey considers.
const highestNumber = 1_000_000_000

// freeKey returns the run's own key if it is valid and free, else the next key of the experiment. A key with an
// existing folder is taken: it may belong to a run that is about to start.
func freeKey(ctx context.Context, tx *sql.Tx, home string, r *ImportedRun) (string, error) {
	prefix := r.Experiment + "-"
	highest := 0
	known := map[string]bool{}
	err := sqlite.Query(ctx, tx, func(rows *sql.Rows) error {
		var key string
		err := rows.Scan(&key)
		known[key] = true
		if n, bad := strconv.Atoi(strings.TrimPrefix(key, prefix)); bad == nil && n < highestNumber {
			highest = max(highest, n)
		}
		return err
	}, "SELECT run FROM main.runs WHERE experiment = ?", r.Experiment)
	free := func(key string) bool {
		_, err := os.Lstat(filepath.Join(home, "runs", key))
		return !known[key] && errors.Is(err, os.ErrNotExist)
	}
	key := r.Source
	if rest, ok := strings.CutPrefix(key, prefix); !ok || rest == "" || !runName.MatchString(key) {
		key = prefix + strconv.Itoa(highest+1)
	}
	for !free(key) {
		highest++
		key = prefix + strconv.Itoa(highest)
	}
	return key, err
}

// copyRun copies a run's rows of one table.
func copyRun(ctx context.Context, tx *sql.Tx, table string, r *ImportedRun) error {
	var names, values []string
	err := sqlite.Query(ctx, tx, func(rows *sql.Rows) error {
		var name string
		if err := rows.Scan(&name); err != nil || name == "id" { // number of an event, specific to its database
			return err
		}
		value := name
		switch table + "." + name {
		case table + ".run":
			value = "?1"
		case "runs.versions": // the mark needs a JSON object
			value = fmt.Sprintf(`json_set(CASE json_type(versions) WHEN 'object' THEN versions ELSE '{}' END,
  '$.%s', coalesce(versions ->> '$.%[1]s', '%s'))`, importedKey, FormatSwarm)
		}
		names, values = append(names, name), append(values, value)
		return nil
	}, "SELECT name FROM pragma_table_info(?) ORDER BY cid", table)
	if err != nil {
		return err
	}
	where, order := "", ""
	switch table {
	case "imports":
		where = " AND format != '" + FormatSwarm + "'" // this import has a row of its own
	case "events":
		order = " ORDER BY id"
	}
	_, err = tx.ExecContext(ctx, fmt.Sprintf("INSERT INTO main.%s (%s) SELECT %s FROM incoming.%[1]s WHERE run = ?2%[4]s%[5]s",
		table, strings.Join(names, ", "), strings.Join(values, ", "), where, order), r.Run, r.Source)
	return err
}

// noteImport records the source of a run, unless another program's import is already recorded. If the run was not
// copied, it only waits for the checksum.
func noteImport(ctx context.Context, tx *sql.Tx, sums *digests, r *ImportedRun) error {
	sum, rows, err := sums.wait(r.Source)
	if err != nil || r.Outcome != ImportNew && r.Outcome != ImportReplaced {
		return err
	}
	notes, err := json.Marshal(importNotes{r.Source, rows})
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO main.imports (run, format, source, digest, imported, notes) VALUES (?, ?, '', ?, ?, ?)
ON CONFLICT (run) DO NOTHING`, r.Run, FormatSwarm, sum, event.Now(), string(notes))
	return err
}
