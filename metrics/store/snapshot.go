package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/sapo-swarm/swarm/metrics/event"
)

// RecentRounds is how many of the newest rounds a Snapshot carries.
const RecentRounds = 60

// Node is one node of a run, as it was when last heard of.
type Node struct {
	Node             string
	State            event.State
	StateTime        float64 // Unix seconds
	WorkingRound     int     // from 0
	PID              int     // 0: no process
	Restarts         int
	Cause, Message   string  // of the newest failure
	RoundsDone       int     // rounds recorded
	LastRound        int     // highest round recorded, from 0; -1: none
	LastReward       float64 // of LastRound; NaN: none or not finite
	CumulativeReward float64
	RSSBytes         int64 // node process and engine
	PeakRSSBytes     int64
	DeviceBytes      int64
	DevicePeakBytes  int64
	ResidentBytes    int64 // between phases, as last reported; on a GPU of its allocator, on a CPU of the engine beyond its interpreter
	GenerateBytes    int64 // highest of a generate phase, beyond resident
	UpdateBytes      int64 // highest of an update phase, beyond resident
	MicroBatch       int   // of that update's forward passes
	BudgetBytes      int64 // what the node may take; 0: no budget
	EnginePID        int   // of the engine that last loaded
	StartRound       int   // rounds that its weights held when it last loaded
	ReplayedRounds   int   // updates applied again from its journal, over all its loads
	ReplaySeconds    float64
	Model            string
	Parameters       int64
	Torch            string
	Device           string
	LastEvent        float64 // Unix seconds
}

// RoundReward is the reward of one node's round.
type RoundReward struct {
	Round  int
	Node   string
	Time   float64 // end of the round, Unix seconds
	Reward float64 // NaN: not finite
}

// Snapshot is one run at one moment.
type Snapshot struct {
	Run      Run
	Nodes    []Node        // by name: node_2 before node_10
	Recent   []RoundReward // the newest RecentRounds rounds, by round and node
	Attempts []Attempt     // oldest first
	Evals    []EvalTotal   // the first held-out evaluation and the newest; one where they are the same
}

// Snapshot returns the run of that key, else the newest run of that experiment; with an empty name the newest of all. Its cost doesn't
// grow with the run's length. The error is ErrNotFound where there is none.
func (r *Reader) Snapshot(ctx context.Context, name string) (Snapshot, error) {
	var s Snapshot
	tx, err := r.db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return s, explain(r.path, err)
	}
	defer tx.Rollback() //nolint:errcheck // it read only
	if s.Run, err = findRun(ctx, tx, name); err != nil {
		return s, explain(r.path, err)
	}
	if s.Nodes, err = nodesOf(ctx, tx, s.Run.Run); err != nil {
		return s, explain(r.path, err)
	}
	last := -1
	for _, n := range s.Nodes {
		last = max(last, n.LastRound)
	}
	if s.Recent, err = roundRewards(ctx, tx, s.Run.Run, last-RecentRounds+1); err != nil {
		return s, explain(r.path, err)
	}
	if s.Attempts, err = attemptsOf(ctx, tx, s.Run.Run); err != nil {
		return s, explain(r.path, err)
	}
	if ok, err := r.hasEvals(ctx); err != nil || !ok {
		return s, err
	}
	s.Evals, err = edgeEvals(ctx, tx, s.Run.Run)
	return s, explain(r.path, err)
}

// RoundRewards returns every round of a run, by round and node.
func (r *Reader) RoundRewards(ctx context.Context, run string) ([]RoundReward, error) {
	rewards, err := roundRewards(ctx, r.db, run, 0)
	return rewards, explain(r.path, err)
}

const runColumns = `run, experiment, preset, model, device, seed, rounds, nodes, num_train_samples, num_transplant_trees,
  num_generations, config, plan, versions, host, pid, start_ticks, boot_id,
  coalesce(price_per_hour, 0.0), price_currency, state, message, attempts, started, resumed, coalesce(ended, 0)`

// fields returns where runColumns are scanned to.
func (run *Run) fields() []any {
	return []any{
		&run.Run, &run.Experiment, &run.Preset, &run.Model, &run.Device, &run.Seed, &run.Rounds, &run.Nodes, &run.NumTrainSamples,
		&run.NumTransplantTrees, &run.NumGenerations, (*[]byte)(&run.Config), (*[]byte)(&run.Plan), (*[]byte)(&run.Versions),
		&run.Host, &run.PID, &run.StartTicks, &run.BootID, &run.PricePerHour, &run.PriceCurrency,
		&run.State, &run.Message, &run.Attempts, &run.Started, &run.Resumed, &run.Ended,
	}
}

func findRun(ctx context.Context, tx *sql.Tx, name string) (Run, error) {
	var run Run
	row := tx.QueryRowContext(ctx, `SELECT `+runColumns+` FROM runs WHERE ?1 IN (run, experiment, '')
ORDER BY run = ?1 DESC, resumed DESC, run DESC LIMIT 1`, name)
	err := row.Scan(run.fields()...)
	if errors.Is(err, sql.ErrNoRows) {
		return run, fmt.Errorf("%q: %w", name, ErrNotFound)
	}
	return run, err
}

func nodesOf(ctx context.Context, db rowsQuerier, run string) ([]Node, error) {
	var nodes []Node
	err := query(ctx, db, func(rows *sql.Rows) error {
		var n Node
		err := rows.Scan(&n.Node, &n.State, &n.StateTime, &n.WorkingRound, &n.PID, &n.Restarts, &n.Cause, &n.Message, &n.RoundsDone,
			&n.LastRound, (*number)(&n.LastReward), &n.CumulativeReward, &n.RSSBytes, &n.PeakRSSBytes, &n.DeviceBytes,
			&n.DevicePeakBytes, &n.ResidentBytes, &n.GenerateBytes, &n.UpdateBytes, &n.MicroBatch, &n.BudgetBytes,
			&n.EnginePID, &n.StartRound, &n.ReplayedRounds, &n.ReplaySeconds, &n.Model, &n.Parameters, &n.Torch, &n.Device, &n.LastEvent)
		nodes = append(nodes, n)
		return err
	}, `SELECT node, state, state_time, working_round, pid, restarts, cause, message, rounds_done, last_round, last_reward,
  cumulative_reward, rss_bytes, peak_rss_bytes, device_bytes, device_peak_bytes, resident_bytes, generate_bytes, update_bytes, micro_batch,
  budget_bytes, engine_pid, start_round, replayed_rounds, replay_seconds, model, parameters, torch, device, last_event
FROM nodes WHERE run = ? ORDER BY length(node), node`, run)
	return nodes, err
}

func roundRewards(ctx context.Context, db rowsQuerier, run string, from int) ([]RoundReward, error) {
	var rewards []RoundReward
	err := query(ctx, db, func(rows *sql.Rows) error {
		var x RoundReward
		err := rows.Scan(&x.Round, &x.Node, &x.Time, (*number)(&x.Reward))
		rewards = append(rewards, x)
		return err
	}, `SELECT round, node, time, reward FROM rounds WHERE run = ? AND round >= ? ORDER BY round, node`, run, from)
	return rewards, err
}
