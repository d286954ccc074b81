package store

import (
	"context"
	"database/sql"
	"strings"

	"github.com/sapo-swarm/swarm/metrics/event"
)

// NodeRounds returns a node's recorded rounds from a round on, in order, at most limit, without their times, tasks and peers. A figure that
// was no number is 0 and named in NonFinite, as "nan", "+inf" or "-inf".
func (r *Reader) NodeRounds(ctx context.Context, run, node string, from, limit int) ([]event.Round, error) {
	var rounds []event.Round
	sampling := "NULL, NULL"
	if ok, err := r.has(ctx, schemaSampling); err != nil {
		return nil, err
	} else if ok {
		sampling = "sampling_logp_difference_max, sampling_logp_difference_mean"
	}
	err := query(ctx, r.db, func(rows *sql.Rows) error {
		var x event.Round
		var nonFinite string
		err := rows.Scan(&x.Round, &x.Reward, &x.RewardStd, &x.TrainingReward, &x.FracRewardZeroStd, &x.FormatRate, &x.Completions, &x.MeanLength,
			&x.ClippedRatio, &x.Loss, &x.KL, &x.GradNorm, &x.Entropy, &x.ClipLow, &x.ClipHigh, &x.Steps, &x.TrainedOwn, &x.TrainedExternal,
			&x.Late, &nonFinite, &x.SamplingLogpDifferenceMax, &x.SamplingLogpDifferenceMean)
		for _, term := range strings.Fields(nonFinite) {
			if name, was, ok := strings.Cut(term, "="); ok {
				if x.NonFinite == nil {
					x.NonFinite = map[string]string{}
				}
				x.NonFinite[name] = was
			}
		}
		rounds = append(rounds, x)
		return err
	}, `SELECT round, coalesce(reward, 0.0), coalesce(reward_std, 0.0), coalesce(training_reward, 0.0), coalesce(frac_reward_zero_std, 0.0),
  coalesce(format_rate, 0.0), completions, coalesce(completions_mean_length, 0.0), coalesce(completions_clipped_ratio, 0.0),
  coalesce(loss, 0.0), coalesce(kl, 0.0), coalesce(grad_norm, 0.0), coalesce(entropy, 0.0), coalesce(clip_ratio_low, 0.0),
  coalesce(clip_ratio_high, 0.0), steps, trained_own, trained_external, late, non_finite, `+sampling+`
FROM rounds WHERE run = ? AND node = ? AND round >= ? ORDER BY round LIMIT ?`, run, node, from, limit)
	return rounds, explain(r.path, err)
}
