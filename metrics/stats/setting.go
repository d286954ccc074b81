package stats

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/sapo-swarm/swarm/metrics/store"
)

// setting is what of a run's configuration its I and J don't tell. A key that the run's program didn't know yet is nil
// or zero.
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

// settingOf reads a run's configuration; of one that is no configuration of ours (an import's, another trainer's) it is
// zero.
func settingOf(run store.Run) setting {
	var s setting
	if json.Unmarshal(run.Config, &s) != nil {
		return setting{}
	}
	return s
}

// ConfigName is how a run is configured in a word: its I/J, or that a rule decides them round by round.
func ConfigName(run store.Run) string {
	switch split := settingOf(run).Split; split {
	case "", "fixed":
		return fmt.Sprintf("%d/%d", run.NumTrainSamples, run.NumTransplantTrees)
	case "bandit":
		return "adaptive"
	case "reward-ema":
		return "adaptive-ema"
	default: // of a newer program
		return "adaptive-" + split
	}
}

// paperEpsilonHigh is the paper's upper clip (arXiv:2509.08721, section 5).
const paperEpsilonHigh = 0.28

// plain tells whether but for I, J, sizes and the learning rate the run does what the paper's runs did, so that its
// figures may stand beside theirs.
func (s setting) plain() bool {
	return usual(s.Split, "fixed") && usual(s.ExternalSampling, "auto", "uniform") && usual(s.Sync, "barrier") && usual(s.Models) &&
		usual(s.ScaleRewards, "group") && (s.ZeroAdvantageFilter == nil || *s.ZeroAdvantageFilter) && s.ExternalLag == 0 &&
		usual(s.ExternalAdvantage, "all") && usual(s.ExternalCorrection, "none") && usual(s.ExternalFilter, "none") && s.NumIterations <= 1 && s.Beta == 0 && (s.EpsilonHigh == nil || *s.EpsilonHigh == paperEpsilonHigh)
}

// usual tells whether a key isn't given, or is one of the values.
func usual(value string, values ...string) bool { return value == "" || slices.Contains(values, value) }
