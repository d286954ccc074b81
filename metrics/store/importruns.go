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

// FormatSwarm is the format of imports that are this program's own records, of another home.
const FormatSwarm = "swarm"

// Further outcomes of an import, of ImportRuns alone.
const (
	ImportOwn   = "own"   // the run was recorded here: nothing to import
	ImportOlder = "older" // what was imported of the run before is more: it stays
	ImportGoing = "going" // the run had not ended when it was written: left out
)

// ImportedRun is what became of one run of another database.
type ImportedRun struct {
	Outcome    string `json:"outcome"`
	Run        string `json:"run"`        // key here; empty: it is not here
	Source     string `json:"source_run"` // key there
	Experiment string `json:"experiment"`
	Seed       int64  `json:"seed"`
	State      string `json:"state"`
	Nodes      int    `json:"nodes"`
	Rounds     int    `json:"rounds"`      // planned
	RoundsDone int    `json:"rounds_done"` // by the slowest node
}

// importNotes are the notes of an import of FormatSwarm.
type importNotes struct {
	Run  string `json:"run"`  // key there
	Rows int    `json:"rows"` // of all tables
}

// ImportRuns takes over the runs of another database that have ended, as Extract has them, all in one transaction. A
// run is the same as one that is here if experiment, seed and first start are: of these what was recorded here stays,
// and what was imported is replaced by a later state of it. A run keeps its key where that is free, and gets its
// experiment's next one otherwise. With dry nothing is written. It returns an entry a run, oldest first; an *Error of
// from's file where that holds what no run of ours has.
func (s *Store) ImportRuns(ctx context.Context, from *Reader, dry bool) ([]ImportedRun, error) {
	all, err := from.Runs(ctx, Filter{})
	if err != nil {
		return nil, err
	}
	// What is copied is an extract of our own making, with our tables and their checks: of a stranger's file only
	// values come through.
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
	taken, err := made.Runs(ctx, Filter{}) // what is checked is what is copied
	if err != nil {
		return nil, named(err, from.Name())
	}
	var out []ImportedRun
	var whole []Totals // those that have ended
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

// extractTo makes an extract of runs for ourselves, and opens it.
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

// checkImported refuses what would name files or lines of text here and can't, and times that nothing recorded here
// could come after.
func checkImported(r Totals) error {
	latest := event.Now() + 24*3600 // clocks differ
	switch {
	case !ValidExperiment(r.Experiment):
		return fmt.Errorf("%.80q is no experiment's name", r.Experiment)
	case !slices.Contains([]string{RunRunning, RunDone, RunStopped, RunLost, RunFailed}, r.State):
		return fmt.Errorf("run %.80q has the state %.80q, which there isn't", r.Run.Run, r.State)
	case !(max(r.Started, r.Resumed, r.Ended) < latest):
		return fmt.Errorf("run %.80q is of a time to come", r.Run.Run)
	}
	return nil
}

func (s *Store) importRuns(ctx context.Context, from *Reader, name string, runs []ImportedRun, sums *digests, dry bool) (err error) {
	conn, err := s.db.Conn(ctx) // what is attached belongs to a connection
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
	for i := range runs { // a checksum is there only if every name in the run is one
		if err := noteImport(ctx, tx, sums, &runs[i]); err != nil {
			return err
		}
	}
	if dry {
		return nil
	}
	return tx.Commit()
}

// takeRun copies one run, unless what is here of it is as good.
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

// placeFor decides about a run, and under which key it is or comes.
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

// highestNumber bounds the numbers of runs that count.
const highestNumber = 1_000_000_000

// freeKey is the run's own key, if that is one and free, or else the experiment's next. A key whose folder is there is
// another run's, which may be about to begin.
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
		if err := rows.Scan(&name); err != nil || name == "id" { // an event's number in its database
			return err
		}
		value := name
		switch table + "." + name {
		case table + ".run":
			value = "?1"
		case "runs.versions": // the mark wants an object
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
		where = " AND format != '" + FormatSwarm + "'" // this import has its own
	case "events":
		order = " ORDER BY id"
	}
	_, err = tx.ExecContext(ctx, fmt.Sprintf("INSERT INTO main.%s (%s) SELECT %s FROM incoming.%[1]s WHERE run = ?2%[4]s%[5]s",
		table, strings.Join(names, ", "), strings.Join(values, ", "), where, order), r.Run, r.Source)
	return err
}

// noteImport records where a run is from, unless it was another program's when it was imported first. Of a run that was
// not taken it only waits for the checksum.
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
