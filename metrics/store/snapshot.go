package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/store/sqlite"
)

// RecentRounds is the number of newest rounds in a Snapshot.
const RecentRounds = 60

// Node is the last known state of one node of a run.
type Node struct {
	Node             string
	State            event.State
	StateTime        float64 // Unix seconds
	WorkingRound     int     // from 0
	PID              int     // 0: no process
	Restarts         int
	Cause, Message   string  // of the newest failure
	RoundsDone       int     // number of recorded rounds
	LastRound        int     // highest recorded round, from 0; -1: none
	LastReward       float64 // reward of LastRound; NaN: none or not finite
	CumulativeReward float64
	RSSBytes         int64 // node process and engine
	PeakRSSBytes     int64
	PSSBytes         int64 // proportional share of RSSBytes; 0: unknown
	PeakPSSBytes     int64
	DeviceBytes      int64
	DevicePeakBytes  int64
	ResidentBytes    int64 // between phases, as last reported; on a GPU of its allocator, on a CPU of the engine without the interpreter
	GenerateBytes    int64 // peak of a generate phase, beyond resident
	UpdateBytes      int64 // peak of an update phase, beyond resident
	MicroBatch       int   // sequences per forward pass in that update
	BudgetBytes      int64 // memory limit of the node; 0: no budget
	EnginePID        int   // of the engine that loaded last
	StartRound       int   // rounds that its weights were trained for when it last loaded
	ReplayedRounds   int   // updates reapplied from its journal, sum over its loads
	ReplaySeconds    float64
	Model            string
	Parameters       int64
	Torch            string
	Device           string
	LastEvent        float64 // Unix seconds
	Worker           string  // owner of the node; empty: the coordinator's host
	From             int     // first round in which it takes part
	Absent           string  // one of Absent*; empty: present
	GenerateOnly     bool    // it shares rollouts and never trains, according to its newest round
}

// Host returns the node's current and peak host memory, and the kind of both figures.
func (n Node) Host() (now, peak int64, kind string) {
	if n.PeakPSSBytes == 0 || n.PSSBytes == 0 && n.RSSBytes > 0 {
		return n.RSSBytes, n.PeakRSSBytes, HostRSS
	}
	return n.PSSBytes, n.PeakPSSBytes, HostPSS
}

// Kinds of host memory figures.
const (
	HostPSS = "pss" // proportional: shared memory counts once
	HostRSS = "rss" // resident: shared memory counts for each process, because the shared part is unknown
)

// RoundReward is the reward of one node's round.
type RoundReward struct {
	Round  int
	Node   string
	Time   float64 // end of the round, Unix seconds
	Reward float64 // NaN: not finite
}

// Snapshot is the state of one run at one moment.
type Snapshot struct {
	Run      Run
	Nodes    []Node        // by name: node_2 before node_10, other hosts' last
	Recent   []RoundReward // the newest RecentRounds rounds, and the last rounds that all nodes finished, by round and node: see recentRewards
	Attempts []Attempt     // oldest first
	Evals    []EvalTotal   // first and newest held-out evaluation, or a single one if they are the same
	Workers  []Worker      // by name
	Command  *Command      // command that started the newest attempt; nil: not recorded
	Alarms   []Alarm       // oldest first
}

// Snapshot returns the run with that key, else the newest run of that experiment. An empty name selects the newest run
// of all. The cost does not grow with the run's length. The error is ErrNotFound if there is none.
func (r *Reader) Snapshot(ctx context.Context, name string) (Snapshot, error) {
	var s Snapshot
	tx, err := r.db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return s, sqlite.Explain(r.path, err)
	}
	defer tx.Rollback() //nolint:errcheck // it read only
	if s.Run, err = findRun(ctx, tx, name); err != nil {
		return s, sqlite.Explain(r.path, err)
	}
	schema, err := r.schema(ctx)
	if err != nil {
		return s, err
	}
	if s.Nodes, err = nodesOf(ctx, tx, s.Run.Run, schema); err != nil {
		return s, sqlite.Explain(r.path, err)
	}
	if s.Recent, err = recentRewards(ctx, tx, s.Run.Run, s.Nodes); err != nil {
		return s, sqlite.Explain(r.path, err)
	}
	if schema >= schemaWorkers {
		if s.Workers, err = workersOf(ctx, tx, s.Run.Run); err != nil {
			return s, sqlite.Explain(r.path, err)
		}
	}
	if s.Attempts, err = attemptsOf(ctx, tx, s.Run.Run); err != nil {
		return s, sqlite.Explain(r.path, err)
	}
	if schema >= schemaCommands {
		if s.Command, err = commandOf(ctx, tx, s.Run.Run); err != nil {
			return s, sqlite.Explain(r.path, err)
		}
	}
	if s.Alarms, err = alarmsOf(ctx, tx, s.Run.Run); err != nil {
		return s, sqlite.Explain(r.path, err)
	}
	if schema < schemaEvals {
		return s, nil
	}
	s.Evals, err = edgeEvals(ctx, tx, s.Run.Run, schema >= schemaWorkers)
	return s, sqlite.Explain(r.path, err)
}

// RoundRewards returns every round of a run, by round and node.
func (r *Reader) RoundRewards(ctx context.Context, run string) ([]RoundReward, error) {
	rewards, err := roundRewards(ctx, r.db, run, 0, math.MaxInt32)
	return rewards, sqlite.Explain(r.path, err)
}

const runColumns = `run, experiment, preset, model, device, seed, rounds, nodes, num_train_samples, num_transplant_trees,
  num_generations, config, plan, versions, host, pid, start_ticks, boot_id,
  coalesce(price_per_hour, 0.0), price_currency, state, message, attempts, started, resumed, coalesce(ended, 0)`

// fields returns the destinations for scanning runColumns.
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
ORDER BY run = ?1 DESC, versions ->> '`+importedKey+`' IS NOT NULL, resumed DESC, run DESC LIMIT 1`, name)
	err := row.Scan(run.fields()...)
	if errors.Is(err, sql.ErrNoRows) {
		return run, fmt.Errorf("%q: %w", name, ErrNotFound)
	}
	return run, err
}

// nodesOf reads a run's nodes from a database with that schema.
func nodesOf(ctx context.Context, db sqlite.Rows, run string, schema int) ([]Node, error) {
	membership, first := "worker, from_round, absent, generate_only", "worker != '', "
	if schema < schemaWorkers {
		membership, first = "'', 0, '', 0", ""
	}
	proportional := "ifnull(pss_bytes, 0), ifnull(peak_pss_bytes, 0)"
	if schema < schemaShares {
		proportional = "0, 0"
	}
	var nodes []Node
	err := sqlite.Query(ctx, db, func(rows *sql.Rows) error {
		var n Node
		err := rows.Scan(&n.Node, &n.State, &n.StateTime, &n.WorkingRound, &n.PID, &n.Restarts, &n.Cause, &n.Message, &n.RoundsDone,
			&n.LastRound, (*number)(&n.LastReward), &n.CumulativeReward, &n.RSSBytes, &n.PeakRSSBytes, &n.DeviceBytes,
			&n.DevicePeakBytes, &n.ResidentBytes, &n.GenerateBytes, &n.UpdateBytes, &n.MicroBatch, &n.BudgetBytes,
			&n.EnginePID, &n.StartRound, &n.ReplayedRounds, &n.ReplaySeconds, &n.Model, &n.Parameters, &n.Torch, &n.Device, &n.LastEvent,
			&n.PSSBytes, &n.PeakPSSBytes, &n.Worker, &n.From, &n.Absent, &n.GenerateOnly)
		nodes = append(nodes, n)
		return err
	}, `SELECT node, state, state_time, working_round, pid, restarts, cause, message, rounds_done, last_round, last_reward,
  cumulative_reward, rss_bytes, peak_rss_bytes, device_bytes, device_peak_bytes, resident_bytes, generate_bytes, update_bytes, micro_batch,
  budget_bytes, engine_pid, start_round, replayed_rounds, replay_seconds, model, parameters, torch, device, last_event, `+proportional+`, `+membership+`
FROM nodes WHERE run = ? ORDER BY `+first+`length(node), node`, run)
	return nodes, err
}

// recentRewards returns the rewards of the newest RecentRounds rounds. If the last round that all nodes finished is
// older, it also returns up to RecentRounds rounds before that round. Nodes need not wait for each other: a node whose
// last round lies between these two ranges contributes its own newest rounds.
func recentRewards(ctx context.Context, db sqlite.Rows, run string, nodes []Node) ([]RoundReward, error) {
	last := -1
	for _, n := range nodes {
		last = max(last, n.LastRound)
	}
	newest, together := last-RecentRounds+1, RoundsDone(nodes)
	from := together - RecentRounds
	if from >= newest {
		return roundRewards(ctx, db, run, newest, last)
	}
	rewards, err := roundRewards(ctx, db, run, from, min(together, newest)-1)
	if err != nil {
		return nil, err
	}
	between, err := apartRewards(ctx, db, run, together, newest)
	if err != nil {
		return nil, err
	}
	ahead, err := roundRewards(ctx, db, run, newest, last)
	return slices.Concat(rewards, between, ahead), err
}

// apartRounds bounds the rounds read of a node that is far from the others.
const apartRounds = 10

// apartRewards returns the newest rewards in rounds from..before-1 of nodes whose last round is at least from. It reads
// at most apartRounds rounds per node.
func apartRewards(ctx context.Context, db sqlite.Rows, run string, from, before int) ([]RoundReward, error) {
	return scanRewards(ctx, db, `WITH RECURSIVE back(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM back WHERE i + 1 < ?4)
SELECT rounds.round, rounds.node, time, reward FROM nodes CROSS JOIN back CROSS JOIN rounds
  ON rounds.run = nodes.run AND rounds.round = nodes.last_round - i AND rounds.node = nodes.node
WHERE nodes.run = ?1 AND last_round >= ?2 AND last_round - i < ?3 AND last_round - i >= ?2 ORDER BY rounds.round, rounds.node`,
		run, from, before, apartRounds)
}

// roundRewards returns the rewards of the rounds from..to.
func roundRewards(ctx context.Context, db sqlite.Rows, run string, from, to int) ([]RoundReward, error) {
	return scanRewards(ctx, db, `SELECT round, node, time, reward FROM rounds
WHERE run = ?1 AND round BETWEEN ?2 AND ?3 ORDER BY round, node`, run, from, to)
}

func scanRewards(ctx context.Context, db sqlite.Rows, q string, args ...any) ([]RoundReward, error) {
	var rewards []RoundReward
	err := sqlite.Query(ctx, db, func(rows *sql.Rows) error {
		var x RoundReward
		err := rows.Scan(&x.Round, &x.Node, &x.Time, (*number)(&x.Reward))
		rewards = append(rewards, x)
		return err
	}, q, args...)
	return rewards, err
}
