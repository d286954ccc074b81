package store

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"

	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/store/sqlite"
)

// Values of Node.Absent.
const (
	AbsentAway = "away" // silent for a while, or too far behind: the swarm does not wait for it, and it may return
	AbsentLeft = "left" // it does not return by itself: it left gracefully, or its worker was revoked or banned
)

// Worker is the last known state of another host that takes part in a run.
type Worker struct {
	Worker    string
	Host      string
	Device    string      // that trains: cpu, or the GPU's name
	Version   string      // of its program
	State     event.State // one of event.Worker*
	StateTime float64     // Unix seconds of the coordinator's clock, as FirstSeen and LastSeen
	FirstSeen float64
	LastSeen  float64
	Nodes     int    // number of its nodes
	Offered   int64  // batches since the coordinator's newest start; Refused and Bytes likewise
	Refused   int64  // of these, refused by the coordinator
	Bytes     int64  // received from it
	Reason    string // reason for its state, or for the newest refusal
}

// Member is a node of a run and its owner.
type Member struct {
	Node   string
	Worker string // empty: the coordinator's host
	From   int    // first round in which it takes part
}

const (
	saveWorkerSQL = `INSERT INTO workers (run, worker, host, device, version, state, state_time, first_seen, last_seen, nodes, offered, refused,
  bytes, reason) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)
ON CONFLICT DO UPDATE SET host = coalesce(nullif(?3, ''), host), device = coalesce(nullif(?4, ''), device),
  version = coalesce(nullif(?5, ''), version), nodes = ?10, offered = ?11, refused = ?12, bytes = ?13, reason = ?14,
  state_time = CASE WHEN state = ?6 THEN state_time ELSE ?7 END, state = ?6,
  first_seen = CASE WHEN first_seen = 0 THEN ?8 ELSE min(first_seen, ?8) END, last_seen = max(last_seen, ?9)`

	setWorkerSQL = `INSERT INTO workers (run, worker, state, state_time, first_seen, last_seen, reason) VALUES (?1, ?2, ?3, ?4, ?4, ?4, ?5)
ON CONFLICT DO UPDATE SET state = ?3, state_time = ?4, reason = ?5, last_seen = CASE WHEN ?3 = 'connected' THEN max(last_seen, ?4) ELSE last_seen END
WHERE state_time < ?4`

	joinSQL = `UPDATE nodes SET worker = ?4, from_round = ?5, absent = '', absent_time = ?3
WHERE run = ?1 AND node = ?2 AND absent_time < ?3`

	// At equal times the later state in a membership counts: present, away, left.
	leaveSQL = `UPDATE nodes SET absent = ?4, absent_time = ?3
WHERE run = ?1 AND node = ?2 AND (absent_time, length(absent), absent) < (?3, length(?4), ?4)`
)

// SaveWorker writes the state of a run's workers immediately, in one transaction. It keeps the recorded host, device or
// version if the new one is empty, as after a restart of the coordinator. If StateTime is unset, a changed state gets
// the current time. If FirstSeen is unset, LastSeen is used.
func (s *Store) SaveWorker(ctx context.Context, run string, workers ...Worker) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return sqlite.Explain(s.path, fmt.Errorf("save workers of %s: %w", run, err))
	}
	defer tx.Rollback() //nolint:errcheck // no effect after a commit
	for _, w := range workers {
		if w.Worker == "" {
			return fmt.Errorf("save workers of %s: one has no name", run)
		}
		state, at := cmp.Or(w.State, event.WorkerConnected), cmp.Or(w.StateTime, event.Now())
		_, err := tx.ExecContext(ctx, saveWorkerSQL, run, w.Worker, w.Host, w.Device, w.Version, string(state), at, cmp.Or(w.FirstSeen, w.LastSeen),
			w.LastSeen, w.Nodes, w.Offered, w.Refused, w.Bytes, w.Reason)
		if err != nil {
			return sqlite.Explain(s.path, fmt.Errorf("save worker %s of %s: %w", w.Worker, run, err))
		}
	}
	return sqlite.Explain(s.path, tx.Commit())
}

// joined records that a node takes part. For a node without a worker, in a worker's own database, it records the first
// round.
func (tx *transaction) joined(e event.Event) error {
	_, err := tx.exec(joinSQL, e.Run, e.Node, e.Time, e.Worker, e.RoundIndex)
	delete(tx.owners, [2]string{e.Run, e.Node})
	return err
}

// left records that the swarm no longer waits for a node. Without a cause the node may return.
func (tx *transaction) left(e event.Event) error {
	absent := AbsentAway
	if e.Cause != "" {
		absent = AbsentLeft
	}
	if _, err := tx.exec(leaveSQL, e.Run, e.Node, e.Time, absent); err != nil || absent != AbsentLeft {
		return err
	}
	_, err := tx.exec(setCauseSQL, e.Run, e.Node, e.Time, e.Cause, e.Message)
	return err
}

// worker records a worker's state.
func (tx *transaction) worker(e event.Event) error {
	_, err := tx.exec(setWorkerSQL, e.Run, e.Worker, string(e.State), e.Time, e.Message)
	return err
}

// joinDetail is the content of events.detail for a join.
type joinDetail struct {
	RoundIndex int `json:"round_index"`
}

// detail returns the text of events.detail for an event.
func detail(e event.Event) (string, error) {
	var of any
	switch {
	case e.MemoryStep != nil:
		of = e.MemoryStep
	case e.Alarm != nil:
		of = e.Alarm
	case e.Type == event.TypeJoin:
		of = joinDetail{e.RoundIndex}
	default:
		return "", nil
	}
	text, err := json.Marshal(of)
	return string(text), err
}

// addDetail is the inverse of detail.
func addDetail(e *event.Event, text string) error {
	switch e.Type {
	case event.TypeMemoryStep:
		e.MemoryStep = &event.MemoryStep{}
		return json.Unmarshal([]byte(text), e.MemoryStep)
	case event.TypeAlarm:
		e.Alarm = &event.Alarm{}
		return json.Unmarshal([]byte(text), e.Alarm)
	case event.TypeJoin:
		var d joinDetail
		err := json.Unmarshal([]byte(text), &d)
		e.RoundIndex = d.RoundIndex
		return err
	}
	return nil
}

// Workers returns a run's workers, by name.
func (r *Reader) Workers(ctx context.Context, run string) ([]Worker, error) {
	if ok, err := r.has(ctx, schemaWorkers); err != nil || !ok {
		return nil, err
	}
	workers, err := workersOf(ctx, r.db, run)
	return workers, sqlite.Explain(r.path, err)
}

func workersOf(ctx context.Context, db sqlite.Rows, run string) ([]Worker, error) {
	var workers []Worker
	err := sqlite.Query(ctx, db, func(rows *sql.Rows) error {
		var w Worker
		err := rows.Scan(&w.Worker, &w.Host, &w.Device, &w.Version, &w.State, &w.StateTime, &w.FirstSeen, &w.LastSeen, &w.Nodes, &w.Offered, &w.Refused,
			&w.Bytes, &w.Reason)
		workers = append(workers, w)
		return err
	}, `SELECT worker, host, device, version, state, state_time, first_seen, last_seen, nodes, offered, refused, bytes, reason
FROM workers WHERE run = ? ORDER BY length(worker), worker`, run)
	return workers, err
}

// Members returns all present and former nodes of a run, by name: node_2 before node_10.
func (r *Reader) Members(ctx context.Context, run string) ([]Member, error) {
	ok, err := r.has(ctx, schemaWorkers)
	if err != nil {
		return nil, err
	}
	columns := "node, worker, from_round"
	if !ok {
		columns = "node, '', 0"
	}
	var members []Member
	err = sqlite.Query(ctx, r.db, func(rows *sql.Rows) error {
		var m Member
		err := rows.Scan(&m.Node, &m.Worker, &m.From)
		members = append(members, m)
		return err
	}, `SELECT `+columns+` FROM nodes WHERE run = ? ORDER BY length(node), node`, run)
	return members, sqlite.Explain(r.path, err)
}
