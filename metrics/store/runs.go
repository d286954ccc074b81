package store

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/store/sqlite"
)

// Filter selects runs. Its zero value selects all.
type Filter struct {
	Experiments []string
	States      []string
}

// Totals is a run with the sums over its nodes.
type Totals struct {
	Run
	NodesSeen        int // nodes that finished a round
	Teachers         int // of these, nodes that only generate
	NodeRounds       int // recorded rounds, sum over nodes
	RoundsDone       int // recorded rounds of the slowest node; of other hosts' nodes only present ones count, by their position in the run
	RoundsReached    int // position of the fastest node in the run
	CumulativeReward float64
	TeacherRounds    int     // of NodeRounds, those of nodes that only generate
	TeacherReward    float64 // of CumulativeReward
	Restarts         int
	ReplayedRounds   int     // updates reapplied from journals
	ActiveSeconds    float64 // until the coordinator's last heartbeat
	LastSeen         float64 // last heartbeat of the coordinator, or the run's end, Unix seconds
	Workers          int     // other hosts with nodes in the run
	WorkerNodes      int     // nodes of workers that finished a round
	Models           string  // loaded by the run's nodes, sorted by name, comma-separated; empty: none yet
}

// Trained returns the rewards of the nodes that train, which are compared: of all nodes if none trains.
func (t Totals) Trained() RewardSum {
	if t.TeacherRounds == t.NodeRounds {
		return RewardSum{NodeRounds: t.NodeRounds, Reward: t.CumulativeReward}
	}
	return RewardSum{NodeRounds: t.NodeRounds - t.TeacherRounds, Reward: t.CumulativeReward - t.TeacherReward}
}

// Runs returns the runs that f selects, oldest first.
func (r *Reader) Runs(ctx context.Context, f Filter) ([]Totals, error) {
	shared, err := r.has(ctx, schemaWorkers)
	if err != nil {
		return nil, err
	}
	slowest, worker, teachers := `coalesce(min(from_round + rounds_done) FILTER (WHERE rounds_done > 0 AND absent = ''),
      min(rounds_done) FILTER (WHERE rounds_done > 0))`, "nullif(worker, '')", "generate_only"
	if !shared {
		slowest, worker, teachers = "min(rounds_done) FILTER (WHERE rounds_done > 0)", "NULL", "0"
	}
	where, args := f.sql()
	var runs []Totals
	err = sqlite.Query(ctx, r.db, func(rows *sql.Rows) error {
		var t Totals
		err := rows.Scan(append(t.fields(), &t.NodesSeen, &t.Teachers, &t.NodeRounds, &t.RoundsDone, &t.RoundsReached, &t.CumulativeReward,
			&t.TeacherRounds, &t.TeacherReward, &t.Restarts, &t.ReplayedRounds, &t.ActiveSeconds, &t.LastSeen, &t.Workers, &t.WorkerNodes, &t.Models)...)
		runs = append(runs, t)
		return err
	}, fmt.Sprintf(`SELECT %[1]s, coalesce(seen, 0), coalesce(teachers, 0), coalesce(node_rounds, 0), coalesce(slowest, 0), coalesce(fastest, 0), coalesce(total, 0.0),
  coalesce(taught_rounds, 0), coalesce(taught, 0.0),
  coalesce(restarted, 0), coalesce(replayed, 0), coalesce(active, 0.0), max(resumed, coalesce(heard, 0.0), coalesce(ended, 0.0)),
  coalesce(workers_seen, 0), coalesce(worker_nodes, 0), coalesce(models, '')
FROM runs LEFT JOIN (
  SELECT run AS key, count(*) FILTER (WHERE rounds_done > 0) AS seen,
    count(*) FILTER (WHERE rounds_done > 0 AND %[2]s) AS teachers, sum(rounds_done) AS node_rounds,
    sum(rounds_done) FILTER (WHERE %[2]s) AS taught_rounds, sum(cumulative_reward) FILTER (WHERE %[2]s) AS taught,
    %[3]s AS slowest, max(last_round) + 1 AS fastest, sum(cumulative_reward) AS total, sum(restarts) AS restarted,
    sum(replayed_rounds) AS replayed, count(DISTINCT %[4]s) AS workers_seen,
    count(%[4]s) FILTER (WHERE rounds_done > 0) AS worker_nodes, group_concat(DISTINCT nullif(model, '')) AS models
  FROM (SELECT * FROM nodes ORDER BY run, model) GROUP BY run) ON key = run
LEFT JOIN (SELECT run AS tried, sum(max(0.0, coalesce(ended, seen) - started)) AS active, max(coalesce(ended, seen)) AS heard
  FROM attempts GROUP BY run)
  ON tried = run
%[5]s ORDER BY started, run`, runColumns, teachers, slowest, worker, where), args...)
	return runs, sqlite.Explain(r.path, err)
}

func (f Filter) sql() (where string, args []any) {
	var terms []string
	for _, x := range []struct {
		column string
		values []string
	}{{"experiment", f.Experiments}, {"state", f.States}} {
		if len(x.values) == 0 {
			continue
		}
		terms = append(terms, x.column+" IN (?"+strings.Repeat(", ?", len(x.values)-1)+")")
		for _, v := range x.values {
			args = append(args, v)
		}
	}
	if terms == nil {
		return "", nil
	}
	return "WHERE " + strings.Join(terms, " AND "), args
}

// CurrentRuns returns the keys of at most limit runs that are recorded as running, the newest attempt first, and then
// the run that ended last. It returns an imported run only if there is no run of this home. Runs whose coordinator
// crashed are still recorded as running.
func (r *Reader) CurrentRuns(ctx context.Context, limit int) ([]string, error) {
	var runs []string
	err := sqlite.Query(ctx, r.db, func(rows *sql.Rows) error {
		var run string
		err := rows.Scan(&run)
		runs = append(runs, run)
		return err
	}, `SELECT run FROM (SELECT run, 0 AS place, resumed AS at FROM runs WHERE state = ?1 ORDER BY resumed DESC, run LIMIT ?2)
UNION ALL SELECT run FROM (SELECT run FROM runs WHERE state != ?1 AND ended IS NOT NULL
ORDER BY versions ->> '`+importedKey+`' IS NOT NULL, ended DESC, run LIMIT 1)`, RunRunning, limit)
	return runs, sqlite.Explain(r.path, err)
}

// Entry is one row of a run's timeline.
type Entry struct {
	ID    int64 // increases in the order of writing
	Event event.Event
}

// Timeline returns at most limit entries of a run with an ID above after, oldest first: spawns, exits, restarts,
// warnings, alarms, failures, joins, leaves, states of workers, and the start and end of the run.
func (r *Reader) Timeline(ctx context.Context, run string, after int64, limit int) ([]Entry, error) {
	shared, err := r.has(ctx, schemaWorkers)
	if err != nil {
		return nil, err
	}
	worker := "worker"
	if !shared {
		worker = "''"
	}
	var entries []Entry
	err = sqlite.Query(ctx, r.db, func(rows *sql.Rows) error {
		x := Entry{Event: event.Event{Run: run}}
		var exitCode sql.NullInt64
		var seconds sql.NullFloat64
		var detail string
		err := rows.Scan(&x.ID, &x.Event.Node, &x.Event.Worker, &x.Event.Type, &x.Event.Time, &x.Event.State, &x.Event.Cause, &x.Event.Message,
			&x.Event.PID, &exitCode, &seconds, &detail)
		if err != nil {
			return err
		}
		if detail != "" {
			err = addDetail(&x.Event, detail)
		}
		x.Event.Seconds = seconds.Float64
		if exitCode.Valid {
			code := int(exitCode.Int64)
			x.Event.ExitCode = &code
		}
		entries = append(entries, x)
		return err
	}, `SELECT id, node, `+worker+`, type, time, state, cause, message, pid, exit_code, seconds, detail FROM events
WHERE run = ? AND id > ? ORDER BY id LIMIT ?`, run, after, limit)
	return entries, sqlite.Explain(r.path, err)
}
