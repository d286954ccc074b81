package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/store/sqlite"
)

const (
	insertNodeSQL = `INSERT INTO nodes (run, node, worker) VALUES (?, ?, ?) ON CONFLICT DO NOTHING`

	touchNodeSQL = `UPDATE nodes SET last_event = ?3 WHERE run = ?1 AND node = ?2 AND last_event < ?3`

	setStateSQL = `UPDATE nodes SET state = ?4, state_rank = ?5, state_time = ?3
WHERE run = ?1 AND node = ?2 AND (state_time, state_rank) < (?3, ?5)`

	setWorkingSQL = `UPDATE nodes SET state = ?4, state_rank = ?5, state_time = ?3, working_round = ?6
WHERE run = ?1 AND node = ?2 AND (state_time, state_rank) < (?3, ?5)`

	setPIDSQL = `UPDATE nodes SET pid = ?4, pid_time = ?3 WHERE run = ?1 AND node = ?2 AND pid_time < ?3`

	// If an exit has the same time as a spawn, the exit came later.
	clearPIDSQL = `UPDATE nodes SET pid = 0, pid_time = ?3 WHERE run = ?1 AND node = ?2 AND pid_time <= ?3`

	setCauseSQL = `UPDATE nodes SET cause = ?4, message = ?5, message_time = ?3
WHERE run = ?1 AND node = ?2 AND message_time < ?3`

	countRestartSQL = `UPDATE nodes SET restarts = restarts + 1 WHERE run = ? AND node = ?`

	setLoadedSQL = `UPDATE nodes SET loaded_time = ?3, model = ?4, parameters = ?5, context_length = ?6, torch = ?7, device = ?8,
  load_seconds = ?9, self_test_max_abs_diff = ?10, engine_pid = ?11, start_round = ?12,
  replayed_rounds = replayed_rounds + ?13, replay_seconds = replay_seconds + ?14
WHERE run = ?1 AND node = ?2 AND loaded_time < ?3`

	setMemorySQL = `UPDATE nodes SET memory_time = ?3, rss_bytes = ?4, device_bytes = ?6, pss_bytes = nullif(?8, 0),
  peak_rss_bytes = max(peak_rss_bytes, ?5), device_peak_bytes = max(device_peak_bytes, ?7), peak_pss_bytes = nullif(max(ifnull(peak_pss_bytes, 0), ?9), 0)
WHERE run = ?1 AND node = ?2 AND memory_time < ?3`

	// A sample that is not the newest counts only for the peaks.
	raisePeaksSQL = `UPDATE nodes SET peak_rss_bytes = max(peak_rss_bytes, ?3), device_peak_bytes = max(device_peak_bytes, ?4),
  peak_pss_bytes = nullif(max(ifnull(peak_pss_bytes, 0), ?5), 0)
WHERE run = ?1 AND node = ?2 AND (peak_rss_bytes < ?3 OR device_peak_bytes < ?4 OR ifnull(peak_pss_bytes, 0) < ?5)`

	insertMemorySQL = `INSERT INTO memory (run, node, time, rss_bytes, peak_rss_bytes, device_bytes, device_peak_bytes, pss_bytes, peak_pss_bytes)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, nullif(?8, 0), nullif(?9, 0))
ON CONFLICT DO UPDATE SET rss_bytes = max(rss_bytes, ?4), peak_rss_bytes = max(peak_rss_bytes, ?5),
  device_bytes = max(device_bytes, ?6), device_peak_bytes = max(device_peak_bytes, ?7),
  pss_bytes = nullif(max(ifnull(pss_bytes, 0), ?8), 0), peak_pss_bytes = nullif(max(ifnull(peak_pss_bytes, 0), ?9), 0)`

	setPhasesSQL = `UPDATE nodes SET resident_bytes = ?4, generate_bytes = max(generate_bytes, ?5), update_bytes = max(update_bytes, ?6),
  micro_batch = ?7, budget_bytes = ?8 WHERE run = ?1 AND node = ?2 AND memory_time = ?3`

	insertEventSQL = `INSERT INTO events (run, node, worker, type, time, state, cause, message, pid, exit_code, seconds, detail)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`

	// A repeated end of an earlier attempt must not end the newest one.
	endRunSQL = `UPDATE runs SET state = ?3, message = ?4, ended = ?2
WHERE run = ?1 AND resumed <= ?2 AND (ended IS NULL OR ended < ?2)`
)

// tables converts events into rows. Only the writer's goroutine uses it after prepareTables.
type tables struct {
	db         *sql.DB
	slot       int64 // seconds per memory row
	statements map[string]*sql.Stmt
	nodes      map[[2]string]bool   // (run, node) pairs that have a row
	owners     map[[2]string]string // owners of nodes for which a worker delivered events
	pulse      *pulse
	warn       func(error)
}

func prepareTables(ctx context.Context, db *sql.DB, opts Options, p *pulse) (*tables, error) {
	t := &tables{
		db: db, slot: max(1, int64(opts.MemoryInterval/time.Second)),
		statements: map[string]*sql.Stmt{}, nodes: map[[2]string]bool{}, owners: map[[2]string]string{}, pulse: p, warn: opts.Warn,
	}
	queries := []string{
		insertNodeSQL, touchNodeSQL, setStateSQL, setWorkingSQL, setPIDSQL, clearPIDSQL, setCauseSQL, countRestartSQL, setLoadedSQL,
		setMemorySQL, raisePeaksSQL, insertMemorySQL, setPhasesSQL, insertDeviceSQL, insertCheckpointSQL, insertEventSQL, endRunSQL, endAttemptSQL,
		seenSQL, jobSeenSQL,
		oldRoundSQL, deleteRoundSQL, insertRoundSQL, addRoundSQL, oldEvalSQL, deleteEvalSQL, insertEvalSQL,
		ackedSQL, setAckedSQL, forgetOutboxesSQL, ownerSQL, setWorkerSQL, joinSQL, leaveSQL,
	}
	for _, i := range []insertion{insertTasks, insertPeers, insertQuestions} {
		queries = append(queries, i.statements...)
	}
	for _, query := range queries {
		st, err := db.PrepareContext(ctx, query)
		if err != nil {
			return nil, errors.Join(err, t.close())
		}
		t.statements[query] = st
	}
	return t, nil
}

func (t *tables) close() error {
	var errs []error
	for _, st := range t.statements {
		errs = append(errs, st.Close())
	}
	return errors.Join(errs...)
}

// apply writes items in one transaction. If the schema rejects the content of single events, it omits these events and
// passes them to warn.
func (t *tables) apply(items []*item) error {
	err := t.transact(items, nil)
	if sqlite.IsRejection(err) {
		t.forget()
		err = t.transact(items, t.warn)
	}
	if err != nil {
		t.forget()
		return err
	}
	for _, it := range items {
		if it.delivery != nil && it.delivery.refused != nil {
			t.warn(it.delivery.refused)
		}
	}
	return nil
}

// forget clears the caches of rows that may have been rolled back.
func (t *tables) forget() {
	clear(t.nodes)
	clear(t.owners)
}

// synced runs write so that each of its transactions is synced to disk at commit. Otherwise a power cut loses the last
// seconds in the write-ahead log, which is synced only at a checkpoint.
func (t *tables) synced(write func() error) error {
	if _, err := t.db.Exec("PRAGMA synchronous = FULL"); err != nil {
		return err
	}
	err := write()
	if _, undo := t.db.Exec("PRAGMA synchronous = NORMAL"); undo != nil && err == nil {
		t.warn(fmt.Errorf("the database still syncs each transaction: %w", undo))
	}
	return err
}

// transact applies items. It syncs the transaction to disk if it contains a delivery, because the worker deletes its
// events after the answer. It also syncs a join, because deliveries of a node without a row would have no owner. With
// reject set, each event runs in a savepoint of its own.
func (t *tables) transact(items []*item, reject func(error)) error {
	for _, it := range items {
		if it.delivery != nil || it.event.Type == event.TypeJoin {
			return t.synced(func() error { return t.transactAs(items, reject) })
		}
	}
	return t.transactAs(items, reject)
}

// transactAs is transact with the connection's current durability.
func (t *tables) transactAs(items []*item, reject func(error)) error {
	tx, done, err := t.begin()
	if err != nil {
		return err
	}
	defer done()
	each := tx.apply
	if reject != nil {
		each = func(e event.Event) error { return tx.applyAlone(e, reject) }
	}
	for _, it := range items {
		switch {
		case it.flushed != nil:
			continue
		case it.delivery != nil:
			err = tx.deliver(it.delivery, each)
		default:
			err = each(it.event)
		}
		if err != nil {
			return err
		}
	}
	if err := tx.touch(); err != nil {
		return err
	}
	return tx.tx.Commit()
}

// begin starts a transaction. done rolls it back unless it was committed.
func (t *tables) begin() (_ *transaction, done func(), err error) {
	// With a context that cannot be canceled, the driver starts no goroutine per statement.
	sqlTx, err := t.db.BeginTx(context.Background(), nil)
	if err != nil {
		return nil, nil, err
	}
	return &transaction{tables: t, tx: sqlTx, bound: map[string]*sql.Stmt{}, heard: map[[2]string]float64{}}, func() { _ = sqlTx.Rollback() }, nil
}

// transaction binds the prepared statements to one sql.Tx.
type transaction struct {
	*tables
	tx    *sql.Tx
	bound map[string]*sql.Stmt
	heard map[[2]string]float64 // time of the newest event per (run, node)
}

func (tx *transaction) statement(query string) *sql.Stmt {
	st, ok := tx.bound[query]
	if !ok {
		st = tx.tx.Stmt(tx.statements[query])
		tx.bound[query] = st
	}
	return st
}

// exec runs a prepared query and reports whether it changed a row.
func (tx *transaction) exec(query string, args ...any) (changed bool, err error) {
	result, err := tx.statement(query).Exec(args...)
	if err != nil {
		return false, err
	}
	n, err := result.RowsAffected()
	return n > 0, err
}

func (tx *transaction) applyAlone(e event.Event, reject func(error)) error {
	if _, err := tx.tx.Exec("SAVEPOINT one"); err != nil {
		return err
	}
	err := tx.apply(e)
	if sqlite.IsRejection(err) {
		reject(fmt.Errorf("%s event of %s %s refused: %w", e.Type, e.Run, e.Node, err))
		tx.forget()
		_, err = tx.tx.Exec("ROLLBACK TO one")
	}
	if err != nil {
		return err
	}
	_, err = tx.tx.Exec("RELEASE one")
	return err
}

// finite returns the value to store for v: NULL for NaN and the infinities.
func finite(v float64) any {
	if !units.Finite(v) {
		return nil
	}
	return v
}

// zeroed returns v, or 0 if it is not finite.
func zeroed(v float64) float64 {
	if finite(v) == nil {
		return 0
	}
	return v
}
