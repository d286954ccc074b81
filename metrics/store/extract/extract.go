// Package extract copies runs into a new database that can be shared. The copy has the data that statistics need and no
// data about the machine or its users. The package has its own list of tables and columns, and must not import
// metrics/store.
package extract

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strconv"
	"strings"

	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/store/sqlite"
)

// extracted lists the copied tables of a run. where selects rows; empty: all rows. Other tables are omitted: peers,
// memory samples, checkpoints, deliveries and jobs.
var extracted = []struct{ table, where string }{
	{"runs", ""}, {"attempts", ""}, {"nodes", ""}, {"rounds", ""}, {"devices", ""}, {"evals", ""}, {"eval_questions", ""},
	{"events", "type != 'spawn'"}, {"workers", ""}, {"imports", ""}, {"imported_rounds", ""},
}

// Tables lists the tables of an extract. Each table follows the tables that it refers to.
func Tables() []string {
	var tables []string
	for _, x := range extracted {
		tables = append(tables, x.table)
	}
	return append(tables, "task_rewards")
}

// BulkCache is SQLite's cache size for bulk writes: 64 MiB, in SQLite's notation. With the default size, pages are
// written several times.
const BulkCache = "-65536"

// taskStretch is the number of rounds over which an extract sums a node's rewards by task.
const taskStretch = 25

// Source is the database to read.
type Source struct{ Path, Driver string }

// File writes a consistent copy of these runs to a new file at path, while other processes continue to write. The file
// must not exist. It returns the number of copied rows. After an error it leaves no file.
func File(ctx context.Context, from Source, path string, runs []string) (rows int, err error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return 0, fmt.Errorf("extract: %w", err)
	}
	if err = file.Close(); err == nil {
		rows, err = Fill(ctx, from, path, runs, nil)
	}
	if err == nil {
		err = sqlite.MarkExtract(path)
	}
	if err != nil {
		return 0, errors.Join(sqlite.Explain(from.Path, err), os.Remove(path))
	}
	return rows, nil
}

// Fill fills the file at path. With labels, which it also fills in, the file is for internal use and is not compacted.
func Fill(ctx context.Context, r Source, path string, runs []string, labels *Labels) (rows int, err error) {
	version, err := sqlite.Inspect(ctx, r.Path, r.Driver)
	if err != nil {
		return 0, err
	}
	steps, err := sqlite.Migrations()
	if err != nil {
		return 0, err
	}
	// No other process uses the file, and after a crash it is discarded, so that it needs no journal. Freed space is
	// overwritten with zeros, which compress well.
	db, err := sql.Open(r.Driver, sqlite.DSN(path, url.Values{"_journal_mode": {"OFF"}, "_synchronous": {"OFF"}, "_secure_delete": {strconv.FormatBool(labels == nil)},
		"_cache_size": {BulkCache}}))
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	db.SetMaxOpenConns(1) // ATTACH is per connection
	var private privacy
	if err := private.install(ctx, db); err != nil {
		return 0, err
	}
	// Copy rows with the source's schema, then migrate.
	for done := false; !done; {
		if done, err = sqlite.MigrateOne(ctx, db, path, steps[:version]); err != nil {
			return 0, err
		}
	}
	if rows, err = r.takeRows(ctx, db, runs, &private, labels); err != nil {
		return 0, err
	}
	if err := sqlite.Migrate(ctx, db, path); err != nil {
		return 0, err
	}
	if labels == nil {
		_, err = db.ExecContext(ctx, "VACUUM")
	}
	return rows, err
}

// takeRows copies the runs' rows into a database of the same schema.
func (r Source) takeRows(ctx context.Context, db *sql.DB, runs []string, private *privacy, labels *Labels) (rows int, err error) {
	if _, err := db.ExecContext(ctx, "ATTACH ? AS source", sqlite.DSN(r.Path, url.Values{"mode": {"ro"}})); err != nil {
		return 0, err
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return 0, err
	}
	defer tx.Rollback()                   //nolint:errcheck // no effect after a commit
	if r.Driver == sqlite.ForeignDriver { // the file may have been replaced since it was opened
		if err := sqlite.CheckForeign(ctx, tx, r.Path, "source"); err != nil {
			return 0, err
		}
	}
	if _, err := tx.ExecContext(ctx, "CREATE TEMP TABLE chosen (run TEXT PRIMARY KEY)"); err != nil {
		return 0, err
	}
	if labels != nil {
		labels.Alone = map[string]string{}
		for _, run := range runs {
			if labels.Alone[run], err = private.choose(ctx, tx, run); err != nil {
				return 0, err
			}
		}
	}
	all, err := private.choose(ctx, tx, runs...)
	if err != nil {
		return 0, err
	}
	if labels != nil {
		labels.All = all
	}
	for _, x := range extracted {
		n, err := takeTable(ctx, tx, x.table, x.where)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", x.table, err)
		}
		rows += n
	}
	n, err := takeTasks(ctx, tx)
	if err != nil {
		return 0, fmt.Errorf("task_rewards: %w", err)
	}
	if err := tx.Commit(); err != nil {
		return 0, err
	}
	_, err = db.ExecContext(ctx, "DROP TABLE chosen; DETACH source")
	return rows + n, err
}

// takeTable copies a table's rows of the chosen runs. It copies nothing if the schema lacks the table.
func takeTable(ctx context.Context, tx *sql.Tx, table, where string) (rows int, err error) {
	var names, values []string
	err = sqlite.Query(ctx, tx, func(rows *sql.Rows) error {
		var name, kind string
		err := rows.Scan(&name, &kind)
		names, values = append(names, name), append(values, shortened(table, name, kind))
		return err
	}, "SELECT name, type FROM pragma_table_info(?) ORDER BY cid", table)
	if err != nil || len(names) == 0 {
		return 0, err
	}
	if where == "" {
		where = "true"
	}
	verb := "INSERT"
	if table == "events" {
		verb = "INSERT OR IGNORE" // two events of one moment may differ only in the folder of a path
	}
	result, err := tx.ExecContext(ctx, fmt.Sprintf("%s INTO main.%s (%s) SELECT %s FROM source.%[2]s WHERE run IN (SELECT run FROM chosen) AND %[5]s",
		verb, table, strings.Join(names, ", "), strings.Join(values, ", "), where))
	if err != nil {
		return 0, err
	}
	n, err := result.RowsAffected()
	return int(n), err
}

// shortened returns the SQL expression for a column's value, without private data and with only the necessary digits.
// Random last digits cannot be compressed.
func shortened(table, column, kind string) string {
	neutral := neutralized[table+"."+column]
	metric, _ := event.MetricNamed(column)
	switch {
	case neutral != "":
		return neutral
	case table != "rounds" || kind != "REAL" || column == "reward":
		return column
	case column == "time" || metric.Unit == event.UnitSeconds:
		return fmt.Sprintf("round(%s * 1024.0) / 1024.0", column)
	case metric.Bound == event.BoundDifference: // typically 1e-6: rounding to 0 would change the meaning
		return fmt.Sprintf("round(%s * 1073741824.0) / 1073741824.0", column)
	}
	return fmt.Sprintf("round(%s * 16384.0) / 16384.0", column)
}

// takeTasks copies rewards by task, summed per node and range of rounds, under the last round of the range that the
// node finished. A sum with a non-finite reward is NULL.
func takeTasks(ctx context.Context, tx *sql.Tx) (rows int, err error) {
	result, err := tx.ExecContext(ctx, `INSERT INTO main.task_rewards (run, round, node, task, completions, reward_sum)
SELECT run, max(round), node, task, sum(completions), CASE WHEN count(*) = count(reward_sum) THEN sum(reward_sum) END
FROM source.task_rewards WHERE run IN (SELECT run FROM chosen) GROUP BY run, round / ?, node, task`, taskStretch)
	if err != nil {
		return 0, err
	}
	n, err := result.RowsAffected()
	return int(n), err
}
