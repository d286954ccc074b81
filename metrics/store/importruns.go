package store

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/sapo-swarm/swarm/metrics/event"
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

// Names that a stranger's run may have, by which folders, files and lines of text are named here.
var (
	importableName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)
	importableNode = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._/:-]{0,127}$`)
)

// ImportRuns takes over the runs of another database that have ended, as Extract has them, all in one transaction. A run is the same as one that
// is here if experiment, seed and first start are: of these what was recorded here stays, and what was imported is replaced by a later state of
// it. A run keeps its key where that is free, and gets its experiment's next one otherwise. With dry nothing is written. It returns an entry a
// run, oldest first; an *Error where from holds what no run of ours has.
func (s *Store) ImportRuns(ctx context.Context, from *Reader, dry bool) ([]ImportedRun, error) {
	runs, err := from.Runs(ctx, Filter{})
	if err != nil {
		return nil, err
	}
	out := make([]ImportedRun, len(runs))
	var ended []string
	latest := event.Now() + 24*3600 // clocks differ, but a time far ahead would pass for the newest for ever
	for i, r := range runs {
		out[i] = ImportedRun{"", "", r.Run.Run, r.Experiment, r.Seed, r.State, r.Run.Nodes, r.Run.Rounds, r.RoundsDone}
		if !importableName.MatchString(r.Experiment) {
			return nil, &Error{Path: from.path, Reason: fmt.Sprintf("damaged: %.80q is no experiment's name", r.Experiment)}
		}
		if most := max(r.Started, r.Resumed, r.Ended); !(most < latest) {
			return nil, &Error{Path: from.path, Reason: fmt.Sprintf("damaged: run %.80q is of a time to come", r.Run.Run)}
		}
		if !slices.Contains([]string{RunDone, RunStopped, RunLost, RunFailed}, r.State) {
			out[i].Outcome = ImportGoing
			continue
		}
		ended = append(ended, r.Run.Run)
	}
	// What is copied is an extract of our own making, with our tables and their checks: of a stranger's file only values come through.
	dir, err := os.MkdirTemp("", "swarm-import-")
	if err != nil {
		return nil, fmt.Errorf("import %s: %w", from.path, err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "swarm.db")
	if _, err := from.Extract(ctx, path, ended); err != nil {
		return nil, err
	}
	extract, err := OpenReader(ctx, path)
	if err != nil {
		return nil, err
	}
	defer extract.Close()
	if err := extract.checkNodes(ctx); err != nil {
		return nil, named(err, from.path)
	}
	if err := s.importRuns(ctx, extract, out, dry); err != nil {
		return nil, explain(s.path, fmt.Errorf("import %s: %w", from.path, err))
	}
	return out, nil
}

func (s *Store) importRuns(ctx context.Context, from *Reader, runs []ImportedRun, dry bool) (err error) {
	conn, err := s.db.Conn(ctx) // what is attached belongs to a connection
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	if _, err := conn.ExecContext(ctx, "ATTACH ? AS incoming", dsn(from.path, url.Values{"mode": {"ro"}})); err != nil {
		return err
	}
	defer func() {
		_, detached := conn.ExecContext(context.WithoutCancel(ctx), "DETACH incoming")
		err = errors.Join(err, detached)
	}()
	tx, err := conn.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // no effect after a commit
	for i := range runs {
		if runs[i].Outcome == ImportGoing {
			continue
		}
		if err := takeRun(ctx, tx, from, &runs[i]); err != nil {
			return fmt.Errorf("run %s: %w", runs[i].Source, err)
		}
	}
	if dry {
		return nil
	}
	return tx.Commit()
}

// takeRun copies one run, unless what is here of it is as good.
func takeRun(ctx context.Context, tx *sql.Tx, from *Reader, r *ImportedRun) error {
	digest, rows, err := digestRun(ctx, from, r.Source)
	if err != nil {
		return err
	}
	if r.Outcome, r.Run, err = placeFor(ctx, tx, r, digest, rows); err != nil || !slices.Contains([]string{ImportNew, ImportReplaced}, r.Outcome) {
		return err
	}
	if r.Outcome == ImportReplaced {
		if _, err := tx.ExecContext(ctx, "DELETE FROM runs WHERE run = ?", r.Run); err != nil {
			return err
		}
	}
	for _, table := range importTables() {
		if err := copyRun(ctx, tx, table, r); err != nil {
			return fmt.Errorf("%s: %w", table, err)
		}
	}
	return noteImport(ctx, tx, r, digest, rows)
}

// checkNodes refuses names of nodes that would be none here.
func (r *Reader) checkNodes(ctx context.Context) error {
	var bad error
	err := query(ctx, r.db, func(rows *sql.Rows) error {
		var node string
		err := rows.Scan(&node)
		if !importableNode.MatchString(node) || strings.Contains(node, "..") {
			bad = &Error{Path: r.path, Reason: fmt.Sprintf("damaged: %.80q is no node's name", node)}
		}
		return err
	}, "SELECT DISTINCT node FROM nodes")
	return errors.Join(bad, explain(r.path, err))
}

// placeFor decides about a run, and under which key it is or comes.
func placeFor(ctx context.Context, tx *sql.Tx, r *ImportedRun, digest string, rows int) (outcome, key string, err error) {
	var was struct {
		format, digest sql.NullString
		rows           sql.NullInt64
	}
	err = tx.QueryRowContext(ctx, `SELECT own.run, format, digest, notes ->> 'rows' FROM incoming.runs AS theirs JOIN main.runs AS own USING (experiment, seed, started)
LEFT JOIN main.imports ON main.imports.run = own.run WHERE theirs.run = ?`, r.Source).Scan(&key, &was.format, &was.digest, &was.rows)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		key, err = freeKey(ctx, tx, r)
		return ImportNew, key, err
	case err != nil:
		return "", "", err
	case !was.format.Valid:
		return ImportOwn, key, nil
	case was.format.String != FormatSwarm || was.digest.String == digest:
		return ImportUnchanged, key, nil
	case int64(rows) < was.rows.Int64:
		return ImportOlder, key, nil
	}
	return ImportReplaced, key, nil
}

// freeKey is the run's own key, EXPERIMENT-N, or if that is taken, or none, the experiment's next.
func freeKey(ctx context.Context, tx *sql.Tx, r *ImportedRun) (string, error) {
	prefix := r.Experiment + "-"
	number := func(key string) int {
		n, err := strconv.Atoi(strings.TrimPrefix(key, prefix))
		if err != nil || !strings.HasPrefix(key, prefix) || n < 1 || prefix+strconv.Itoa(n) != key {
			return 0
		}
		return n
	}
	highest, taken := 0, false
	err := query(ctx, tx, func(rows *sql.Rows) error {
		var key string
		err := rows.Scan(&key)
		highest, taken = max(highest, number(key)), taken || key == r.Source
		return err
	}, "SELECT run FROM main.runs")
	if err == nil && !taken && number(r.Source) > 0 {
		return r.Source, nil
	}
	return prefix + strconv.Itoa(highest+1), err
}

// importTables are the tables that an import fills, a table after those that it refers to.
func importTables() []string {
	var tables []string
	for _, x := range extracted {
		tables = append(tables, x.table)
	}
	return append(tables, "task_rewards")
}

// copyRun copies a run's rows of one table.
func copyRun(ctx context.Context, tx *sql.Tx, table string, r *ImportedRun) error {
	var names, values []string
	err := query(ctx, tx, func(rows *sql.Rows) error {
		var name string
		if err := rows.Scan(&name); err != nil || name == "id" { // an event's number of its database
			return err
		}
		value := name
		switch table + "." + name {
		case table + ".run":
			value = "?1"
		case "runs.versions":
			value = fmt.Sprintf("json_set(versions, '$.%s', coalesce(versions ->> '%[1]s', '%s'))", importedKey, FormatSwarm)
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

// noteImport records where a run is from, unless it was another program's when it was imported first.
func noteImport(ctx context.Context, tx *sql.Tx, r *ImportedRun, digest string, rows int) error {
	notes, err := json.Marshal(importNotes{r.Source, rows})
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `INSERT OR IGNORE INTO main.imports (run, format, source, digest, imported, notes) VALUES (?, ?, '', ?, ?, ?)`,
		r.Run, FormatSwarm, digest, event.Now(), string(notes))
	return err
}

// digestRun is a checksum of all that an extract has of a run, whatever key it has there, and how many rows that are.
func digestRun(ctx context.Context, from *Reader, run string) (digest string, rows int, err error) {
	sum := sha256.New()
	for _, table := range importTables() {
		if table == "imports" {
			continue
		}
		n, err := digestTable(ctx, from, table, run, sum)
		if err != nil {
			return "", 0, err
		}
		rows += n
	}
	return hex.EncodeToString(sum.Sum(nil)), rows, nil
}

func digestTable(ctx context.Context, from *Reader, table, run string, sum hash.Hash) (rows int, err error) {
	columns, err := from.Columns(ctx, table)
	if err != nil {
		return 0, err
	}
	out := json.NewEncoder(sum)
	err = from.Dump(ctx, table, run, "", func(row []any) error {
		rows++
		for i, c := range columns {
			switch text, _ := row[i].(string); {
			case c.Name == "run" || c.Name == "id":
				row[i] = nil
			case table+"."+c.Name == "runs.versions":
				row[i] = withoutMark(text)
			}
		}
		return out.Encode(row)
	})
	return rows, err
}

// withoutMark is a document of versions without what says that it was imported.
func withoutMark(text string) any {
	var versions map[string]any
	if json.Unmarshal([]byte(text), &versions) != nil {
		return text
	}
	delete(versions, importedKey)
	return versions
}
