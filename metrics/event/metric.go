package event

import (
	"math"
	"slices"
)

// Metric is one figure of a Round. The table of metrics is the only list of them. Database columns, the comparisons of
// `swarm verify`, the values accepted from workers, exports, the API and the documents derive from the table or are
// tested against it. A new metric needs a field of Round, its computation, one row here and a migration that adds its
// column.
type Metric struct {
	Name     string  // name in JSON, in the database and in the API
	Unit     Unit    // of its values
	Axis     Axis    // y axis of its curve
	Meaning  string  // description, exactly as in docs/METRICS.md
	TRL      string  // TRL's name for the metric; empty: TRL has no such metric
	Training bool    // only rounds that train have a value
	Bound    Bound   // which values the coordinator accepts from a worker
	Repeat   Repeat  // which comparison of `swarm verify` covers the metric
	Since    int     // schema version that added its column; 0: every readable schema has it
	Optional bool    // a round may lack the value without a reason in NonFinite
	field    fieldOf // pointer to its field: *float64, **float64, *int or *bool
	none     noneOf  // reports whether a value means "no value"; nil: no value does
}

type (
	fieldOf func(*Round) any
	noneOf  func(*Round) bool
)

// Unit is a metric's unit as docs/METRICS.md writes it.
type Unit string

// Units of metrics.
const (
	UnitNone         Unit = ""
	UnitReward       Unit = "0–1"
	UnitRatio        Unit = "ratio"
	UnitCount        Unit = "count"
	UnitTokens       Unit = "tokens"
	UnitGroups       Unit = "groups"
	UnitNats         Unit = "nats"
	UnitNatsPerToken Unit = "nats/token"
	UnitSeconds      Unit = "s"
	UnitRounds       Unit = "rounds"
	UnitFlag         Unit = "0/1"
)

// Axis is the y axis of a metric's curve, as the dashboard's API names it.
type Axis string

// Axes of curves.
const (
	AxisNumber  Axis = "number"
	AxisRatio   Axis = "ratio"
	AxisTokens  Axis = "tokens"
	AxisSeconds Axis = "seconds"
)

// Bound limits the values of a metric that the coordinator accepts from a worker. The experiment determines the largest
// counts.
type Bound int

// Bounds of metrics.
const (
	BoundNone           Bound = iota // any finite number
	BoundRatio                       // 0 to 1
	BoundLength                      // a duration, a length or a norm: at least 0
	BoundDifference                  // of log-probabilities: at least 0
	BoundCount                       // at least 0
	BoundCompletions                 // a count, at most a round's own completions
	BoundOwnGroups                   // a count, at most a round's own groups
	BoundExternalGroups              // a count, at most a round's external groups
)

// Repeat selects the comparison of `swarm verify` that covers a metric.
type Repeat int

// Comparisons of `swarm verify`.
const (
	RepeatNever   Repeat = iota // a duration, or a value that depends on when peers' rollouts arrived
	RepeatOwn                   // depends on the node's own rollouts only
	RepeatScored                // known before the update, if all rollouts that peers shared are available
	RepeatStepped               // whether the round made an update
	RepeatLearned               // result of the update, in floating point
)

// metrics is the table, in display order.
var metrics = []Metric{
	{Name: "reward", Unit: UnitReward, Axis: AxisNumber, TRL: "reward", Bound: BoundRatio, Repeat: RepeatOwn,
		Meaning: "mean of scores over own I·G completions",
		field:   func(r *Round) any { return &r.Reward }},
	{Name: "reward_std", Unit: UnitReward, Axis: AxisNumber, TRL: "reward_std", Bound: BoundRatio, Repeat: RepeatOwn,
		Meaning: "mean over own groups of the group's standard deviation (ddof 1)",
		field:   func(r *Round) any { return &r.RewardStd }},
	{Name: "training_reward", Unit: UnitReward, Axis: AxisNumber, Training: true, Bound: BoundRatio, Repeat: RepeatScored,
		Meaning: "mean of scores over the I+J groups trained on",
		field:   func(r *Round) any { return &r.TrainingReward }},
	{Name: "frac_reward_zero_std", Unit: UnitRatio, Axis: AxisRatio, TRL: "frac_reward_zero_std", Bound: BoundRatio, Repeat: RepeatOwn,
		Meaning: "own groups whose scores are all equal / own groups",
		field:   func(r *Round) any { return &r.FracRewardZeroStd }},
	{Name: "format_rate", Unit: UnitRatio, Axis: AxisRatio, Bound: BoundRatio, Repeat: RepeatOwn,
		Meaning: "own completions with an `<answer>` pair / own completions",
		field:   func(r *Round) any { return &r.FormatRate }},
	{Name: "completions", Unit: UnitCount, Axis: AxisNumber, Bound: BoundCompletions, Repeat: RepeatOwn,
		Meaning: "I·G",
		field:   func(r *Round) any { return &r.Completions }},
	{Name: "completions_mean_length", Unit: UnitTokens, Axis: AxisTokens, TRL: "completions/mean_length", Bound: BoundLength, Repeat: RepeatOwn,
		Meaning: "mean length of own completions",
		field:   func(r *Round) any { return &r.MeanLength }},
	{Name: "completions_clipped_ratio", Unit: UnitRatio, Axis: AxisRatio, TRL: "completions/clipped_ratio", Bound: BoundRatio, Repeat: RepeatOwn,
		Meaning: "own completions that hit the length limit / own completions",
		field:   func(r *Round) any { return &r.ClippedRatio }},
	{Name: "completions_mean_terminated_length", Unit: UnitTokens, Axis: AxisTokens, TRL: "completions/mean_terminated_length", Bound: BoundLength,
		Repeat: RepeatOwn, Since: 12, Optional: true,
		Meaning: "mean length of own completions that ended with an EOS; NULL if none did, or before schema 12",
		field:   func(r *Round) any { return &r.MeanTerminatedLength }},
	{Name: "loss", Unit: UnitNone, Axis: AxisNumber, TRL: "loss", Training: true, Repeat: RepeatLearned,
		Meaning: "GRPO loss of the update, mean over its steps",
		field:   func(r *Round) any { return &r.Loss }},
	{Name: "kl", Unit: UnitNats, Axis: AxisNumber, TRL: "kl", Training: true, Repeat: RepeatLearned,
		Meaning: "to the reference policy; 0 without one",
		field:   func(r *Round) any { return &r.KL }},
	{Name: "grad_norm", Unit: UnitNone, Axis: AxisNumber, TRL: "grad_norm", Training: true, Bound: BoundLength, Repeat: RepeatLearned,
		Meaning: "norm of the gradient before clipping",
		field:   func(r *Round) any { return &r.GradNorm }},
	{Name: "entropy", Unit: UnitNatsPerToken, Axis: AxisNumber, TRL: "entropy", Training: true, Repeat: RepeatOwn,
		Meaning: "of the policy over completion tokens",
		field:   func(r *Round) any { return &r.Entropy }},
	{Name: "clip_ratio_low", Unit: UnitRatio, Axis: AxisRatio, TRL: "clip_ratio/low_mean", Training: true, Repeat: RepeatLearned,
		Meaning: "tokens whose ratio was clipped below 1−ε_low",
		field:   func(r *Round) any { return &r.ClipLow }},
	{Name: "clip_ratio_high", Unit: UnitRatio, Axis: AxisRatio, TRL: "clip_ratio/high_mean", Training: true, Repeat: RepeatLearned,
		Meaning: "tokens whose ratio was clipped above 1+ε_high",
		field:   func(r *Round) any { return &r.ClipHigh }},
	{Name: "steps", Unit: UnitCount, Axis: AxisNumber, Bound: BoundCount, Repeat: RepeatStepped,
		Meaning: "optimizer steps; 0: every advantage was zero",
		field:   func(r *Round) any { return &r.Steps }},
	{Name: "sampling_logp_difference_max", Unit: UnitNats, Axis: AxisNumber, TRL: "sampling/sampling_logp_difference/max", Training: true,
		Bound: BoundDifference, Repeat: RepeatLearned, Since: 9, Optional: true,
		Meaning: "largest \\|log-probability before the update − log-probability when sampled\\|; [see below](#sampler-and-trainer)",
		field:   func(r *Round) any { return &r.SamplingLogpDifferenceMax }},
	{Name: "sampling_logp_difference_mean", Unit: UnitNats, Axis: AxisNumber, TRL: "sampling/sampling_logp_difference/mean", Training: true,
		Bound: BoundDifference, Repeat: RepeatLearned, Since: 9, Optional: true,
		Meaning: "mean of the same differences",
		field:   func(r *Round) any { return &r.SamplingLogpDifferenceMean }},
	{Name: "external_clip_ratio", Unit: UnitRatio, Axis: AxisRatio, Training: true, Bound: BoundRatio, Repeat: RepeatLearned, Since: 13, Optional: true,
		Meaning: "others' tokens whose weight was clipped / others' tokens computed; NULL if `external_correction` weighs none, or before schema 13",
		field:   func(r *Round) any { return &r.ExternalClipRatio }},
	{Name: "external_dropped", Unit: UnitCount, Axis: AxisNumber, Training: true, Bound: BoundLength, Repeat: RepeatLearned, Since: 13, Optional: true,
		Meaning: "others' completions dropped for their divergence (`external_correction: ftis`); NULL in the same cases",
		field:   func(r *Round) any { return &r.ExternalDropped }},
	{Name: "external_ess", Unit: UnitRatio, Axis: AxisRatio, Training: true, Bound: BoundRatio, Repeat: RepeatLearned, Since: 13, Optional: true,
		Meaning: "effective sample size of others' tokens / others' tokens computed: (Σw)² / (n·Σw²) of their weights w; NULL in the same cases",
		field:   func(r *Round) any { return &r.ExternalESS }},
	{Name: "trained_own", Unit: UnitGroups, Axis: AxisNumber, Bound: BoundOwnGroups, Repeat: RepeatOwn,
		Meaning: "own groups in the training set",
		field:   func(r *Round) any { return &r.TrainedOwn }},
	{Name: "trained_external", Unit: UnitGroups, Axis: AxisNumber, Bound: BoundExternalGroups, Repeat: RepeatScored,
		Meaning: "others' groups in the training set",
		field:   func(r *Round) any { return &r.TrainedExternal }},
	{Name: "split_own", Unit: UnitGroups, Axis: AxisNumber, Bound: BoundOwnGroups, Repeat: RepeatOwn, Since: 8,
		Meaning: "I of this round, chosen by the run's rule (configuration key `split`). NULL if the split is fixed, or before schema 8",
		field:   func(r *Round) any { return &r.SplitOwn }, none: fixedSplit},
	{Name: "split_external", Unit: UnitGroups, Axis: AxisNumber, Bound: BoundExternalGroups, Repeat: RepeatOwn, Since: 8,
		Meaning: "J of this round, NULL in the same cases; I+J is constant, and `trained_external` is how many of J were available",
		field:   func(r *Round) any { return &r.SplitExternal }, none: fixedSplit},
	{Name: "step_time", Unit: UnitSeconds, Axis: AxisSeconds, TRL: "step_time", Bound: BoundLength,
		Meaning: "whole round, wall",
		field:   func(r *Round) any { return &r.StepTime }},
	{Name: "generate_time", Unit: UnitSeconds, Axis: AxisSeconds, Bound: BoundLength,
		Meaning: "inside the engine's generate call",
		field:   func(r *Round) any { return &r.GenerateTime }},
	{Name: "update_time", Unit: UnitSeconds, Axis: AxisSeconds, Training: true, Bound: BoundLength,
		Meaning: "inside the engine's update call",
		field:   func(r *Round) any { return &r.UpdateTime }},
	{Name: "score_time", Unit: UnitSeconds, Axis: AxisSeconds, Bound: BoundLength,
		Meaning: "in verifiers",
		field:   func(r *Round) any { return &r.ScoreTime }},
	{Name: "lease_time", Unit: UnitSeconds, Axis: AxisSeconds, Bound: BoundLength,
		Meaning: "waiting for leases",
		field:   func(r *Round) any { return &r.LeaseTime }},
	{Name: "barrier_time", Unit: UnitSeconds, Axis: AxisSeconds, Bound: BoundLength,
		Meaning: "waiting for peers' rollouts",
		field:   func(r *Round) any { return &r.BarrierTime }},
	{Name: "journal_time", Unit: UnitSeconds, Axis: AxisSeconds, Bound: BoundLength,
		Meaning: "writing the journal; NULL before schema 3",
		field:   func(r *Round) any { return &r.JournalTime }},
	{Name: "late", Unit: UnitFlag, Axis: AxisRatio, Repeat: RepeatScored,
		Meaning: "the barrier's deadline passed before every peer had shared",
		field:   func(r *Round) any { return &r.Late }},
	{Name: "staleness", Unit: UnitRounds, Axis: AxisNumber, Training: true, Bound: BoundLength, Since: 6,
		Meaning: "mean age of the external groups trained on, in this node's rounds since they arrived; 0 at a barrier; NULL before schema 6",
		field:   func(r *Round) any { return &r.Staleness }},
	{Name: "generate_only", Unit: UnitFlag, Axis: AxisNumber, Since: 6,
		Meaning: "the node shares and never trains",
		field:   func(r *Round) any { return &r.GenerateOnly }},
}

// fixedSplit reports whether a round uses the configured I and J.
func fixedSplit(r *Round) bool { return r.SplitOwn == 0 && r.SplitExternal == 0 }

// Metrics returns the table of metrics. Callers must not change it.
func Metrics() []Metric { return slices.Clip(metrics) }

// MetricNamed returns the metric with that name, and whether it exists.
func MetricNamed(name string) (Metric, bool) {
	i := slices.IndexFunc(metrics, func(m Metric) bool { return m.Name == name })
	if i < 0 {
		return Metric{}, false
	}
	return metrics[i], true
}

// MetricNames returns the names of all metrics in the table's order.
func MetricNames() []string {
	names := make([]string, len(metrics))
	for i, m := range metrics {
		names[i] = m.Name
	}
	return names
}

// Value returns a round's figure as recorded: a float64, an int or a bool, or nil if the round has no value. It does
// not consult NonFinite.
func (m Metric) Value(r *Round) any {
	if m.Training && r.GenerateOnly || m.none != nil && m.none(r) {
		return nil
	}
	switch p := m.field(r).(type) {
	case *float64:
		return *p
	case **float64:
		if *p != nil {
			return **p
		}
	case *int:
		return *p
	case *bool:
		return *p
	}
	return nil
}

// Number returns the field's content as a number: NaN for a nil pointer, 1 for true and 0 for false.
func (m Metric) Number(r *Round) float64 {
	switch p := m.field(r).(type) {
	case *float64:
		return *p
	case **float64:
		if *p != nil {
			return **p
		}
	case *int:
		return float64(*p)
	case *bool:
		if *p {
			return 1
		}
		return 0
	}
	return math.NaN()
}

// SetNumber is the inverse of Number.
func (m Metric) SetNumber(r *Round, v float64) {
	switch p := m.field(r).(type) {
	case *float64:
		*p = v
	case **float64:
		*p = &v
	case *int:
		*p = int(v)
	case *bool:
		*p = v != 0
	}
}

// Real reports whether the metric is a measurement, which the database stores as REAL. Counts and flags are INTEGER.
func (m Metric) Real() bool {
	switch m.field(&Round{}).(type) {
	case *float64, **float64:
		return true
	}
	return false
}
