package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
)

// States of a run.
const (
	RunRunning = "running"
	RunDone    = "done"    // every node did every round
	RunStopped = "stopped" // by request, after an orderly checkpoint
	RunLost    = "lost"    // some nodes gave up
	RunFailed  = "failed"
)

// Run is one attempt at an experiment. Config, Plan and Versions are JSON documents; nil means {}.
type Run struct {
	Run        string // key
	Experiment string
	Preset     string
	Model      string
	Device     string
	Seed       int64
	Rounds     int      // planned
	Nodes      int      // planned; 0 at StartRun: len(NodeIDs)
	NodeIDs    []string // planned nodes; StartRun makes their rows, queries leave it nil

	NumTrainSamples    int // I
	NumTransplantTrees int // J
	NumGenerations     int // G

	Config   json.RawMessage
	Plan     json.RawMessage
	Versions json.RawMessage

	Host       string  // the coordinator's
	PID        int     // the coordinator's
	PIDStarted float64 // when that process started, Unix seconds: tells a recycled PID

	State    string  // set by StartRun (running) and by a run_ended event
	Message  string  // with State
	Attempts int     // 1 + times resumed
	Started  float64 // Unix seconds; StartRun of a known run keeps the first
	Resumed  float64 // start of the newest attempt
	Ended    float64 // 0: not ended
}

// StartRun writes a run's row before its first event, at once. For a run that is already there it notes one more attempt: state
// running, the new coordinator, and every node queued that isn't done; rounds, rewards and the first start stay.
// r.Started is the time of this start.
func (s *Store) StartRun(ctx context.Context, r Run) error {
	if r.Run == "" || r.Experiment == "" {
		return errors.New("start run: it needs a run and an experiment")
	}
	r.Nodes = max(r.Nodes, len(r.NodeIDs))
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return explain(s.path, fmt.Errorf("start run %s: %w", r.Run, err))
	}
	defer tx.Rollback() //nolint:errcheck // no effect after a commit
	if err := insertRun(ctx, tx, r); err != nil {
		return explain(s.path, fmt.Errorf("start run %s: %w", r.Run, err))
	}
	if err := tx.Commit(); err != nil {
		return explain(s.path, fmt.Errorf("start run %s: %w", r.Run, err))
	}
	s.mu.Lock()
	s.runs[r.Run] = true
	s.mu.Unlock()
	return nil
}

const insertRunSQL = `
INSERT INTO runs (run, experiment, state, preset, model, device, seed, rounds, nodes, num_train_samples, num_transplant_trees,
  num_generations, config, plan, versions, host, pid, pid_started, started, resumed)
VALUES (?, ?, 'running', ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (run) DO UPDATE SET experiment = excluded.experiment, state = 'running', message = '', preset = excluded.preset,
  model = excluded.model, device = excluded.device, seed = excluded.seed, rounds = excluded.rounds, nodes = excluded.nodes,
  num_train_samples = excluded.num_train_samples, num_transplant_trees = excluded.num_transplant_trees,
  num_generations = excluded.num_generations, config = excluded.config, plan = excluded.plan, versions = excluded.versions,
  host = excluded.host, pid = excluded.pid, pid_started = excluded.pid_started, resumed = excluded.resumed, ended = NULL,
  attempts = attempts + 1`

func insertRun(ctx context.Context, tx *sql.Tx, r Run) error {
	_, err := tx.ExecContext(ctx, insertRunSQL, r.Run, r.Experiment, r.Preset, r.Model, r.Device, r.Seed, r.Rounds, r.Nodes,
		r.NumTrainSamples, r.NumTransplantTrees, r.NumGenerations, document(r.Config), document(r.Plan), document(r.Versions),
		r.Host, r.PID, r.PIDStarted, r.Started, r.Started)
	if err != nil {
		return err
	}
	// The former coordinator is gone and its nodes with it.
	_, err = tx.ExecContext(ctx, `UPDATE nodes SET state = 'queued', state_rank = -1, state_time = ?1, pid = 0, pid_time = ?1
WHERE run = ?2 AND state != 'done'`, r.Started, r.Run)
	if err != nil {
		return err
	}
	for _, node := range r.NodeIDs {
		if _, err := tx.ExecContext(ctx, insertNodeSQL, r.Run, node); err != nil {
			return err
		}
	}
	return nil
}

func document(raw json.RawMessage) string {
	if len(raw) == 0 {
		return "{}"
	}
	return string(raw)
}
