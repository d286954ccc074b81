package store

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"

	"github.com/sapo-swarm/swarm/metrics/store/sqlite"
)

// Column is a column of a table, as the schema declares it.
type Column struct {
	Name string
	Type string // INTEGER, REAL or TEXT
	JSON bool   // TEXT that holds a JSON document, or nothing
}

// dumped are the tables that Dump reads, and the order of their rows: that of their key, with node_2 before node_10
// where there is no key to follow.
var dumped = []struct{ table, order string }{
	{"runs", "started, run"}, {"attempts", "attempt"}, {"commands", "attempt"}, {"nodes", "length(node), node"}, {"rounds", "round, node"},
	{"task_rewards", "round, node, task"}, {"peers", "round, node, peer"}, {"memory", "node, time"}, {"devices", "uuid, time"},
	{"checkpoints", "node, round"}, {"evals", "round, node"}, {"eval_questions", "round, node, question"}, {"events", "id"},
	{"workers", "length(worker), worker"}, {"deliveries", "worker, outbox"},
	{"imports", "run"}, {"imported_rounds", "round, node"},
	{"jobs", "started, job"}, {"job_attempts", "job, attempt"},
}

// jobTables belong to jobs: their rows have a job for a key, and no run.
var jobTables = []string{"jobs", "job_attempts"}

// OfJobs tells whether a table belongs to jobs rather than to runs.
func OfJobs(table string) bool { return slices.Contains(jobTables, table) }

// Tables names the tables that belong to runs, and after them those of jobs, as docs/METRICS.md has them.
func Tables() []string {
	names := make([]string, len(dumped))
	for i, d := range dumped {
		names[i] = d.table
	}
	return names
}

// jsonColumns hold JSON documents.
var jsonColumns = []string{"runs.config", "runs.plan", "runs.versions", "events.detail", "imports.notes", "commands.arguments", "commands.environment",
	"jobs.command", "job_attempts.settings"}

// Columns returns the columns of a table. A table that the database's schema doesn't have yet has none; the error is
// ErrNotFound, wrapped, for one that no schema has.
func (r *Reader) Columns(ctx context.Context, table string) ([]Column, error) {
	if !slices.Contains(Tables(), table) {
		return nil, fmt.Errorf("%w: no table %q", ErrNotFound, table)
	}
	var columns []Column
	err := sqlite.Query(ctx, r.db, func(rows *sql.Rows) error {
		var c Column
		err := rows.Scan(&c.Name, &c.Type)
		c.JSON = slices.Contains(jsonColumns, table+"."+c.Name)
		columns = append(columns, c)
		return err
	}, "SELECT name, type FROM pragma_table_info(?) ORDER BY cid", table)
	return columns, sqlite.Explain(r.path, err)
}

// Dump hands every row of one run in a table to row, in the order of the table's key, one at a time; with a node only
// that node's, of a table with nodes. Of a table of jobs the run is a job's key. A value is nil, int64, float64 or
// string, by Columns; the slice is used again.
func (r *Reader) Dump(ctx context.Context, table, run, node string, row func([]any) error) error {
	columns, err := r.Columns(ctx, table)
	if err != nil || len(columns) == 0 {
		return err
	}
	names := make([]string, len(columns))
	values, into := make([]any, len(columns)), make([]any, len(columns))
	for i, c := range columns {
		names[i], into[i] = c.Name, &values[i]
	}
	order := dumped[slices.Index(Tables(), table)].order
	where, args := "run = ?", []any{run}
	if OfJobs(table) {
		where = "job = ?"
	}
	if node != "" {
		where, args = where+" AND node = ?", append(args, node)
	}
	var refused error // row's own, which is none of the database's
	err = sqlite.Query(ctx, r.db, func(rows *sql.Rows) error {
		if err := rows.Scan(into...); err != nil {
			return err
		}
		for i, v := range values {
			if text, ok := v.([]byte); ok {
				values[i] = string(text)
			}
		}
		refused = row(values)
		return refused
	}, fmt.Sprintf("SELECT %s FROM %s WHERE %s ORDER BY %s", strings.Join(names, ", "), table, where, order), args...)
	if refused != nil {
		return refused
	}
	return sqlite.Explain(r.path, err)
}
