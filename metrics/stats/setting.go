package stats

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/sapo-swarm/swarm/metrics/store"
)

// setting holds the settings of a run's configuration other than I and J. A key that the run's program did not have is
// nil or zero.
type setting struct {
	Split               string   `json:"split"`
	ZeroAdvantageFilter *bool    `json:"zero_advantage_filter"`
	ExternalSampling    string   `json:"external_sampling"`
	ExternalAdvantage   string   `json:"external_advantage"`
	ExternalCorrection  string   `json:"external_correction"`
	ExternalFilter      string   `json:"external_filter"`
	ExternalLag         int      `json:"external_lag"`
	Sync                string   `json:"sync"`
	Models              string   `json:"models"`
	NumIterations       int      `json:"num_iterations"`
	ScaleRewards        string   `json:"scale_rewards"`
	EpsilonHigh         *float64 `json:"epsilon_high"`
	Beta                float64  `json:"beta"`
}

// settingOf parses a run's configuration. It returns a zero setting for a configuration of another format, as of an
// import or another trainer.
func settingOf(run store.Run) setting {
	var s setting
	if json.Unmarshal(run.Config, &s) != nil {
		return setting{}
	}
	return s
}

// ConfigName names a run's configuration in one word: its I/J, or the rule that chooses them for each round.
func ConfigName(run store.Run) string {
	switch split := settingOf(run).Split; split {
	case "", "fixed":
		return fmt.Sprintf("%d/%d", run.NumTrainSamples, run.NumTransplantTrees)
	case "bandit":
		return "adaptive"
	case "reward-ema":
		return "adaptive-ema"
	default: // a rule of a newer program
		return "adaptive-" + split
	}
}

// paperEpsilonHigh is the paper's upper clipping bound (arXiv:2509.08721, section 5).
const paperEpsilonHigh = 0.28

// plain reports whether the run's settings match the paper's, except for I, J, sizes and the learning rate. Only then
// are its figures shown beside the paper's.
func (s setting) plain() bool {
	return usual(s.Split, "fixed") && usual(s.ExternalSampling, "auto", "uniform") && usual(s.Sync, "barrier") && usual(s.Models) &&
		usual(s.ScaleRewards, "group") && (s.ZeroAdvantageFilter == nil || *s.ZeroAdvantageFilter) && s.ExternalLag == 0 &&
		usual(s.ExternalAdvantage, "all") && usual(s.ExternalCorrection, "none") && usual(s.ExternalFilter, "none") && s.NumIterations <= 1 && s.Beta == 0 && (s.EpsilonHigh == nil || *s.EpsilonHigh == paperEpsilonHigh)
}

// usual reports whether a value is empty or one of the given values.
func usual(value string, values ...string) bool { return value == "" || slices.Contains(values, value) }
