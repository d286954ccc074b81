package node

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/node/policy"
)

// The update receives the sampling log-probabilities of own completions and never those of external ones, under any
// correction.
func TestOnlyOwnCompletionsAreComparedWithTheSampler(t *testing.T) {
	for name, change := range map[string]func(*configs.Config){
		"as the paper":       nil,
		"several iterations": func(c *configs.Config) { c.NumIterations = 3 },
		"importance":         func(c *configs.Config) { c.ExternalCorrection = configs.CorrectionImportance },
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, change)
			s.share("node_1", useful(draw(t, s.node.Tasks, 1)))
			s.share("node_2")
			s.script.apart = 0.04
			report, err := s.round()
			require.NoError(t, err)
			update := s.record.updates[0]
			require.Greater(t, len(update.Sequences), 12)
			for k, q := range update.Sequences {
				if k >= 12 {
					require.Nil(t, q.SamplingLogprobs)
					continue
				}
				require.Len(t, q.SamplingLogprobs, len(q.Completion))
				require.Equal(t, -float32(k+1), q.SamplingLogprobs[0])
				require.Equal(t, s.config.NumIterations > 1, q.OldLogprobs != nil, "the objective is as before")
			}
			require.Equal(t, []float64{0.04, 0.005}, []float64{*report.SamplingLogpDifferenceMax, *report.SamplingLogpDifferenceMean})
		})
	}
}

// The update does not compute completions of a group without advantage: it receives no log-probabilities, and the
// round has no figure.
func TestARoundWithoutComputedOwnCompletionsHasNoFigure(t *testing.T) {
	wrong := func(s *stage) { s.script.answer = func(int, int) string { return "no" } }
	s := newStage(t, nil)
	wrong(s)
	s.share("node_1", useful(draw(t, s.node.Tasks, 1)))
	s.share("node_2")
	report, err := s.round()
	require.NoError(t, err)
	require.Equal(t, 1, report.Steps)
	require.Nil(t, report.SamplingLogpDifferenceMax)
	require.Nil(t, report.SamplingLogpDifferenceMean)

	s = newStage(t, func(c *configs.Config) { c.NumTransplantTrees, c.Beta = 0, 0.1 })
	wrong(s)
	report, err = s.round()
	require.NoError(t, err)
	require.NotNil(t, report.SamplingLogpDifferenceMax, "for the KL they are computed")
}

func TestDisagreementIsToldOnceUntilItIsOver(t *testing.T) {
	s := newStage(t, func(c *configs.Config) { c.NumTransplantTrees = 0 })
	var told []string
	s.node.Warn = func(message string) { told = append(told, message) }
	for _, step := range []struct {
		apart  float64
		zero   bool
		wanted int
	}{{0.05, false, 0}, {0.0500001, false, 1}, {3, false, 1}, {0, true, 1}, {3, false, 1}, {0.01, false, 1}, {0.06, false, 2}} {
		tokens := int64(10)
		if step.zero {
			tokens = 0
		}
		s.node.watchSampling(7, policy.UpdateResult{SamplingLogpDifferenceMax: step.apart, SamplingLogpDifferenceMean: 0.001, SamplingTokens: tokens})
		require.Len(t, told, step.wanted, "%+v", step)
	}
	s.script.apart = 1
	s.node.disagrees = false
	_, err := s.round()
	require.NoError(t, err)
	require.Len(t, told, 3, "a round watches")
}

func TestWhatIsSaidOfADisagreement(t *testing.T) {
	n := &Node{Config: configs.Default()}
	require.Equal(t, "sampler and trainer disagree in round 7 with precision fp32: a sampled token's log-probability differs by up to 0.0731, mean 0.00112. "+
		"Training uses different log-probabilities than sampling did. Try: a newer torch", n.disagreement(7, 0.07312, 0.001123))
	n.OnGPU, n.Config.Precision = true, "bf16"
	require.Equal(t, "sampler and trainer disagree in round 0 with precision bf16: a sampled token's log-probability differs by up to 0.06, mean 0.002 "+
		"(rounding in bf16 alone can explain single tokens, but not the mean). "+
		"Training uses different log-probabilities than sampling did. Try: cuda_graphs: false, or precision: fp32, or a newer torch", n.disagreement(0, 0.06, 0.002))
	n.Config.Precision, n.Config.CUDAGraphs = "auto", false
	require.Contains(t, n.disagreement(0, 1, 1), "precision tf32: ")
	require.Contains(t, n.disagreement(0, 1, 1), "Try: precision: fp32, or a newer torch")
}
