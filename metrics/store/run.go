package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/sapo-swarm/swarm/metrics/store/sqlite"
)

// States of a run.
const (
	RunRunning = "running"
	RunDone    = "done"    // every node finished every round
	RunStopped = "stopped" // by request, after a final checkpoint
	RunLost    = "lost"    // some nodes gave up
	RunFailed  = "failed"
)

// AlarmStop begins the Message of a run that stopped because of its alarm (on_alarm: stop).
const AlarmStop = "stopped by the alarm"

// StoppedByAlarm reports whether a run with this state and message ended its newest attempt because of the alarm.
func StoppedByAlarm(state, message string) bool {
	return state == RunStopped && strings.HasPrefix(message, AlarmStop)
}

// StoppedByAlarm reports whether the newest attempt ended because of the alarm.
func (r Run) StoppedByAlarm() bool { return StoppedByAlarm(r.State, r.Message) }

// Run is one run of an experiment, with one or more attempts. Config, Plan and Versions are JSON documents; nil means
// {}.
type Run struct {
	Run        string // key
	Experiment string
	Preset     string
	Model      string
	Device     string
	Seed       int64
	Rounds     int      // planned
	Nodes      int      // planned; 0 at StartRun: len(NodeIDs)
	NodeIDs    []string // planned nodes; StartRun creates their rows, and queries leave it nil

	NumTrainSamples    int // I
	NumTransplantTrees int // J
	NumGenerations     int // G

	Config   json.RawMessage
	Plan     json.RawMessage
	Versions json.RawMessage

	Command *Command // of this attempt; queries leave it nil, and Snapshot has the newest

	Host       string // identifies the coordinator's process, with the next three fields
	PID        int
	StartTicks int64  // of /proc/PID/stat
	BootID     string // of that host

	PricePerHour  float64 // of the machine; 0: unknown. StartRun keeps the price of an existing run if none is given
	PriceCurrency string  // as configured: $, EUR

	State    string  // set by StartRun (running) and by a run_ended event
	Message  string  // with State
	Attempts int     // 1 + times resumed
	Started  float64 // Unix seconds; StartRun keeps the first start of an existing run
	Resumed  float64 // start of the newest attempt
	Ended    float64 // 0: not ended
}

// StartRun writes a run's row immediately, before its first event, and begins an attempt. For an existing run it adds
// an attempt: it sets the state to running, records the new coordinator, and queues every unfinished node. Rounds,
// rewards and the first start stay. An earlier attempt without an end is marked as crashed and ends at its last
// heartbeat. r.Started is the time of this start.
//
// The attempt counts as alive until its run_ended event, Close, or the end of this process.
func (s *Store) StartRun(ctx context.Context, r Run) error {
	if r.Run == "" || r.Experiment == "" {
		return errors.New("start run: a run and an experiment are needed")
	}
	r.Nodes = max(r.Nodes, len(r.NodeIDs))
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return sqlite.Explain(s.path, fmt.Errorf("start run %s: %w", r.Run, err))
	}
	defer tx.Rollback() //nolint:errcheck // no effect after a commit
	attempt, err := insertRun(ctx, tx, r)
	if err != nil {
		return sqlite.Explain(s.path, fmt.Errorf("start run %s: %w", r.Run, err))
	}
	if err := tx.Commit(); err != nil {
		return sqlite.Explain(s.path, fmt.Errorf("start run %s: %w", r.Run, err))
	}
	s.pulse.begin(r.Run, attempt, r.Started)
	s.mu.Lock()
	s.runs[r.Run] = true
	s.mu.Unlock()
	return nil
}

const insertRunSQL = `
INSERT INTO runs (run, experiment, state, preset, model, device, seed, rounds, nodes, num_train_samples, num_transplant_trees,
  num_generations, config, plan, versions, host, pid, start_ticks, boot_id, price_per_hour, price_currency, started, resumed)
VALUES (?, ?, 'running', ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (run) DO UPDATE SET experiment = excluded.experiment, state = 'running', message = '', preset = excluded.preset,
  model = excluded.model, device = excluded.device, seed = excluded.seed, rounds = excluded.rounds, nodes = excluded.nodes,
  num_train_samples = excluded.num_train_samples, num_transplant_trees = excluded.num_transplant_trees,
  num_generations = excluded.num_generations, config = excluded.config, plan = excluded.plan, versions = excluded.versions,
  host = excluded.host, pid = excluded.pid, start_ticks = excluded.start_ticks, boot_id = excluded.boot_id,
  price_per_hour = coalesce(excluded.price_per_hour, price_per_hour),
  price_currency = CASE WHEN excluded.price_per_hour IS NULL THEN price_currency ELSE excluded.price_currency END,
  resumed = excluded.resumed, ended = NULL, attempts = attempts + 1`

func insertRun(ctx context.Context, tx *sql.Tx, r Run) (attempt int, err error) {
	_, err = tx.ExecContext(ctx, insertRunSQL, r.Run, r.Experiment, r.Preset, r.Model, r.Device, r.Seed, r.Rounds, r.Nodes,
		r.NumTrainSamples, r.NumTransplantTrees, r.NumGenerations, document(r.Config), document(r.Plan), document(r.Versions),
		r.Host, r.PID, r.StartTicks, r.BootID, known(r.PricePerHour), r.PriceCurrency, r.Started, r.Started)
	if err != nil {
		return 0, err
	}
	if attempt, err = beginAttempt(ctx, tx, r); err != nil {
		return 0, err
	}
	if r.Command != nil {
		if err := insertCommand(ctx, tx, r.Run, attempt, *r.Command); err != nil {
			return 0, err
		}
	}
	// The former coordinator and its nodes are gone. If the clock was set back, times recorded before must not hide new
	// events.
	_, err = tx.ExecContext(ctx, `UPDATE nodes SET pid = 0, pid_time = ?1, loaded_time = min(loaded_time, ?1),
  memory_time = min(memory_time, ?1), message_time = min(message_time, ?1) WHERE run = ?2`, r.Started, r.Run)
	if err != nil {
		return 0, err
	}
	_, err = tx.ExecContext(ctx, `UPDATE nodes SET state = 'queued', state_rank = -1, state_time = ?1
WHERE run = ?2 AND worker = '' AND (state != 'done' OR last_round + 1 < ?3)`, r.Started, r.Run, r.Rounds)
	if err != nil {
		return 0, err
	}
	// Other hosts' nodes may have continued. They count as away until their workers reconnect.
	_, err = tx.ExecContext(ctx, `UPDATE nodes SET absent = CASE absent WHEN '' THEN 'away' ELSE absent END, absent_time = ?1
WHERE run = ?2 AND worker != ''`, r.Started, r.Run)
	if err != nil {
		return 0, err
	}
	_, err = tx.ExecContext(ctx, `UPDATE workers SET state = CASE state WHEN 'connected' THEN 'away' ELSE state END, state_time = ?1 WHERE run = ?2`,
		r.Started, r.Run)
	if err != nil {
		return 0, err
	}
	for _, node := range r.NodeIDs {
		if _, err := tx.ExecContext(ctx, insertNodeSQL, r.Run, node, ""); err != nil {
			return 0, err
		}
	}
	return attempt, nil
}

// known returns the value to store for a number: NULL for 0, which means unknown.
func known(v float64) any {
	if v == 0 {
		return nil
	}
	return finite(v)
}

func document(raw json.RawMessage) string {
	if len(raw) == 0 {
		return "{}"
	}
	return string(raw)
}
