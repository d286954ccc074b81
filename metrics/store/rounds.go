package store

import (
	"database/sql"
	"errors"
	"math"
	"strings"

	"github.com/sapo-swarm/swarm/metrics/event"
)

const (
	oldRoundSQL    = `SELECT time, reward FROM rounds WHERE run = ? AND round = ? AND node = ?`
	deleteRoundSQL = `DELETE FROM rounds WHERE run = ? AND round = ? AND node = ?`

	// ?3 the round, ?4 its reward, ?5 what it adds to the sum, ?6 how many rows it adds
	addRoundSQL = `UPDATE nodes SET cumulative_reward = cumulative_reward + ?5, rounds_done = rounds_done + ?6,
  last_reward = CASE WHEN ?3 >= last_round THEN ?4 ELSE last_reward END, last_round = max(last_round, ?3)
WHERE run = ?1 AND node = ?2`

	insertTaskSQL = `INSERT INTO task_rewards (run, round, node, task, completions, reward_sum) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET completions = excluded.completions, reward_sum = excluded.reward_sum`
	insertPeerSQL = `INSERT INTO peers (run, round, node, peer, available, rejected, filtered, used, late)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET available = excluded.available, rejected = excluded.rejected, filtered = excluded.filtered,
  used = excluded.used, late = excluded.late`
)

// roundColumn is a column of rounds beside its key, time and non_finite.
type roundColumn struct {
	name  string
	value func(*event.Round) any
}

// roundColumns lists event.Round in the order of the table.
var roundColumns = []roundColumn{
	{"reward", func(r *event.Round) any { return r.Reward }},
	{"reward_std", func(r *event.Round) any { return r.RewardStd }},
	{"training_reward", func(r *event.Round) any { return r.TrainingReward }},
	{"frac_reward_zero_std", func(r *event.Round) any { return r.FracRewardZeroStd }},
	{"format_rate", func(r *event.Round) any { return r.FormatRate }},
	{"completions", func(r *event.Round) any { return r.Completions }},
	{"completions_mean_length", func(r *event.Round) any { return r.MeanLength }},
	{"completions_clipped_ratio", func(r *event.Round) any { return r.ClippedRatio }},
	{"loss", func(r *event.Round) any { return r.Loss }},
	{"kl", func(r *event.Round) any { return r.KL }},
	{"grad_norm", func(r *event.Round) any { return r.GradNorm }},
	{"entropy", func(r *event.Round) any { return r.Entropy }},
	{"clip_ratio_low", func(r *event.Round) any { return r.ClipLow }},
	{"clip_ratio_high", func(r *event.Round) any { return r.ClipHigh }},
	{"steps", func(r *event.Round) any { return r.Steps }},
	{"trained_own", func(r *event.Round) any { return r.TrainedOwn }},
	{"trained_external", func(r *event.Round) any { return r.TrainedExternal }},
	{"step_time", func(r *event.Round) any { return r.StepTime }},
	{"generate_time", func(r *event.Round) any { return r.GenerateTime }},
	{"update_time", func(r *event.Round) any { return r.UpdateTime }},
	{"score_time", func(r *event.Round) any { return r.ScoreTime }},
	{"lease_time", func(r *event.Round) any { return r.LeaseTime }},
	{"barrier_time", func(r *event.Round) any { return r.BarrierTime }},
	{"journal_time", func(r *event.Round) any { return r.JournalTime }},
	{"late", func(r *event.Round) any { return r.Late }},
}

var insertRoundSQL = func() string {
	names := make([]string, len(roundColumns))
	for i, c := range roundColumns {
		names[i] = c.name
	}
	return "INSERT INTO rounds (run, round, node, time, " + strings.Join(names, ", ") + ", non_finite) VALUES (?, ?, ?, ?" +
		strings.Repeat(", ?", len(names)) + ", ?)"
}()

// replayed takes what a node tells again from its journal: a round that is missing here. Everything else was told in its time, and a
// round that is here is the same or a newer one.
func (tx *transaction) replayed(e event.Event) error {
	if e.Type != event.TypeRound {
		return nil
	}
	if err := tx.row(e); err != nil {
		return err
	}
	switch _, _, found, err := tx.oldRound(e); {
	case err != nil || found:
		return err
	}
	return tx.addRound(e, 1, 0)
}

// round writes one node's round. A node that restarted from a checkpoint does rounds again: the newest by time is the one its weights
// come from, and replaces the former.
func (tx *transaction) round(e event.Event) error {
	at, reward, found, err := tx.oldRound(e)
	switch {
	case err != nil:
		return err
	case !found:
		return tx.addRound(e, 1, 0)
	case e.Time <= at:
		return nil
	}
	if _, err := tx.exec(deleteRoundSQL, e.Run, e.Round.Round, e.Node); err != nil {
		return err
	}
	return tx.addRound(e, 0, reward)
}

// oldRound returns the time and the reward, 0 for none, of the row that e's round has.
func (tx *transaction) oldRound(e event.Event) (at, reward float64, found bool, err error) {
	var old sql.NullFloat64
	err = tx.statement(oldRoundSQL).QueryRow(e.Run, e.Round.Round, e.Node).Scan(&at, &old)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, 0, false, nil
	}
	return at, old.Float64, err == nil, err
}

// addRound inserts e's round, which has no row, and adds it to the node's sums: so many rows more, and its reward instead of the former one.
func (tx *transaction) addRound(e event.Event, rows int, former float64) error {
	r := e.Round
	if _, err := tx.exec(insertRoundSQL, roundValues(e)...); err != nil {
		return err
	}
	gain := -former
	if reward := finite(r.Reward); reward != nil {
		gain += r.Reward
	}
	if _, err := tx.exec(addRoundSQL, e.Run, e.Node, r.Round, finite(r.Reward), gain, rows); err != nil {
		return err
	}
	for _, task := range r.Tasks {
		if _, err := tx.exec(insertTaskSQL, e.Run, r.Round, e.Node, task.Task, task.Completions, finite(task.RewardSum)); err != nil {
			return err
		}
	}
	for _, p := range r.Peers {
		_, err := tx.exec(insertPeerSQL, e.Run, r.Round, e.Node, p.Node, p.Available, p.Rejected, p.Filtered, p.Used, p.Late)
		if err != nil {
			return err
		}
	}
	return nil
}

// roundValues returns the row of e: a value that isn't finite becomes NULL, and non_finite says what it was.
func roundValues(e event.Event) []any {
	values := make([]any, 0, len(roundColumns)+5)
	values = append(values, e.Run, e.Round.Round, e.Node, e.Time)
	var nonFinite []string
	for _, c := range roundColumns {
		v := c.value(e.Round)
		if f, ok := v.(float64); ok {
			switch {
			case math.IsNaN(f):
				nonFinite = append(nonFinite, c.name+"=nan")
			case math.IsInf(f, 1):
				nonFinite = append(nonFinite, c.name+"=+inf")
			case math.IsInf(f, -1):
				nonFinite = append(nonFinite, c.name+"=-inf")
			}
			v = finite(f)
			if was, ok := e.Round.NonFinite[c.name]; ok && v != nil {
				nonFinite = append(nonFinite, c.name+"="+strings.ToLower(was))
				v = nil
			}
		}
		values = append(values, v)
	}
	return append(values, strings.Join(nonFinite, " "))
}
