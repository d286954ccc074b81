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
	JSON bool   // TEXT that holds a JSON document or is empty
}

// dumped lists the tables that Dump reads, with the order of their rows: the order of the key. Tables whose key does
// not order nodes list node_2 before node_10.
var dumped = []struct{ table, order string }{
	{"runs", "started, run"}, {"attempts", "attempt"}, {"commands", "attempt"}, {"nodes", "length(node), node"}, {"rounds", "round, node"},
	{"task_rewards", "round, node, task"}, {"peers", "round, node, peer"}, {"memory", "node, time"}, {"devices", "uuid, time"},
	{"checkpoints", "node, round"}, {"evals", "round, node"}, {"eval_questions", "round, node, question"}, {"events", "id"},
	{"workers", "length(worker), worker"}, {"deliveries", "worker, outbox"},
	{"imports", "run"}, {"imported_rounds", "round, node"},
	{"jobs", "started, job"}, {"job_attempts", "job, attempt"},
}

// jobTables are the tables of jobs. Their rows have a job as key, and no run.
var jobTables = []string{"jobs", "job_attempts"}

// OfJobs reports whether a table belongs to jobs rather than runs.
func OfJobs(table string) bool { return slices.Contains(jobTables, table) }

// Tables lists the tables of runs and then those of jobs, in the order of docs/METRICS.md.
func Tables() []string {
	names := make([]string, len(dumped))
	for i, d := range dumped {
		names[i] = d.table
	}
	return names
}

// jsonColumns are the columns that hold JSON documents.
var jsonColumns = []string{"runs.config", "runs.plan", "runs.versions", "events.detail", "imports.notes", "commands.arguments", "commands.environment",
	"jobs.command", "job_attempts.settings"}

// Columns returns the columns of a table. A table that is missing in the database's schema has none. A name that no
// schema has fails with a wrapped ErrNotFound.
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

// Dump calls row with every row of one run in a table, in the order of the table's key. With a node it selects that
// node's rows, in tables with nodes. In a table of jobs, run is a job's key. A value is nil, int64, float64 or string,
// according to Columns. The slice is reused for each row.
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
	var refused error // error of row, not of the database
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
