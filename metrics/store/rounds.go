package store

import (
	"database/sql"
	"strings"

	"github.com/sapo-swarm/swarm/metrics/event"
)

const (
	oldRoundSQL    = `SELECT time, reward FROM rounds WHERE run = ? AND round = ? AND node = ?`
	deleteRoundSQL = `DELETE FROM rounds WHERE run = ? AND round = ? AND node = ?`

	// ?3: round, ?4: its reward, ?5: addition to the sum, ?6: additional rows, ?7: the round did not train
	addRoundSQL = `UPDATE nodes SET cumulative_reward = cumulative_reward + ?5, rounds_done = rounds_done + ?6,
  last_reward = CASE WHEN ?3 >= last_round THEN ?4 ELSE last_reward END,
  generate_only = CASE WHEN ?3 >= last_round THEN ?7 ELSE generate_only END, last_round = max(last_round, ?3)
WHERE run = ?1 AND node = ?2`
)

var (
	insertTasks = newInsertion(`INSERT INTO task_rewards (run, round, node, task, completions, reward_sum) VALUES`, 3,
		`ON CONFLICT DO UPDATE SET completions = excluded.completions, reward_sum = excluded.reward_sum`)
	insertPeers = newInsertion(`INSERT INTO peers (run, round, node, peer, available, rejected, filtered, used, late, reason) VALUES`, 7,
		`ON CONFLICT DO UPDATE SET available = excluded.available, rejected = excluded.rejected, filtered = excluded.filtered,
  used = excluded.used, late = excluded.late, reason = excluded.reason`)
)

var insertRoundSQL = func() string {
	names := event.MetricNames()
	return "INSERT INTO rounds (run, round, node, time, " + strings.Join(names, ", ") + ", non_finite) VALUES (?, ?, ?, ?" +
		strings.Repeat(", ?", len(names)) + ", ?) ON CONFLICT DO NOTHING"
}()

// replayed writes an event that a node repeats from its journal: a round or an evaluation that is missing here. Other
// events were already reported when they happened. A recorded round or evaluation is the same or newer, and stays.
func (tx *transaction) replayed(e event.Event) error {
	if e.Type != event.TypeRound && e.Type != event.TypeEval {
		return nil
	}
	if err := tx.row(e); err != nil {
		return err
	}
	if e.Type == event.TypeEval {
		return tx.eval(e)
	}
	return tx.round(e)
}

// round writes one node's round. A node that restarts from a checkpoint repeats rounds. The newest by time replaces the
// earlier one, because the node's weights come from it.
func (tx *transaction) round(e event.Event) error {
	values := roundValues(e)
	isNew, err := tx.exec(insertRoundSQL, values...)
	switch {
	case err != nil:
		return err
	case isNew:
		return tx.addRound(e, 1, 0)
	case e.Replayed:
		return nil
	}
	var at float64
	var former sql.NullFloat64
	err = tx.statement(oldRoundSQL).QueryRow(e.Run, e.Round.Round, e.Node).Scan(&at, &former)
	if err != nil || e.Time <= at {
		return err
	}
	if _, err := tx.exec(deleteRoundSQL, e.Run, e.Round.Round, e.Node); err != nil {
		return err
	}
	if _, err := tx.exec(insertRoundSQL, values...); err != nil {
		return err
	}
	return tx.addRound(e, 0, former.Float64)
}

// addRound adds e's round, whose row is written, to the node's sums. rows is the number of new rows, and former is the
// reward of a replaced round. It also writes the round's tasks and peers.
func (tx *transaction) addRound(e event.Event, rows int, former float64) error {
	r := e.Round
	gain := -former
	if reward := finite(r.Reward); reward != nil {
		gain += r.Reward
	}
	if _, err := tx.exec(addRoundSQL, e.Run, e.Node, r.Round, finite(r.Reward), gain, rows, r.GenerateOnly); err != nil {
		return err
	}
	tasks := make([]any, 0, len(r.Tasks)*insertTasks.columns)
	for _, task := range r.Tasks {
		tasks = append(tasks, task.Task, task.Completions, finite(task.RewardSum))
	}
	if err := tx.insert(insertTasks, [3]any{e.Run, r.Round, e.Node}, tasks); err != nil {
		return err
	}
	peers := make([]any, 0, len(r.Peers)*insertPeers.columns)
	for _, p := range r.Peers {
		peers = append(peers, p.Node, p.Available, p.Rejected, p.Filtered, p.Used, p.Late, p.Reason)
	}
	return tx.insert(insertPeers, [3]any{e.Run, r.Round, e.Node}, peers)
}

// roundValues returns the row of e. A non-finite value becomes NULL and is listed in non_finite. A value that the round
// does not have is also NULL.
func roundValues(e event.Event) []any {
	metrics := event.Metrics()
	values := make([]any, 0, len(metrics)+5)
	values = append(values, e.Run, e.Round.Round, e.Node, e.Time)
	var nonFinite missing
	for _, m := range metrics {
		v := m.Value(e.Round)
		if f, ok := v.(float64); ok {
			nonFinite.note(m.Name, f)
			v = finite(f)
			if was, ok := e.Round.NonFinite[m.Name]; ok && v != nil {
				nonFinite = append(nonFinite, m.Name+"="+strings.ToLower(was))
				v = nil
			}
		}
		values = append(values, v)
	}
	return append(values, strings.Join(nonFinite, " "))
}
