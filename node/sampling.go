package node

import (
	"fmt"
	"strings"

	"github.com/sapo-swarm/swarm/node/policy"
	"github.com/sapo-swarm/swarm/node/sapo"
)

// samplingLimit is the largest difference without a warning, in nats, between a token's log-probability when it was
// sampled and before the update. It is far above rounding in fp32 (1e-6) and tf32, and far below a difference that
// moves a clipped ratio. In bf16 and fp16, single tokens can exceed it.
const samplingLimit = 0.05

// sampledWith returns the log-probabilities with which the tokens of all completions were sampled, nil for a
// completion without them.
func sampledWith(groups ...group) [][]float64 {
	var list [][]float64
	for _, g := range groups {
		logprobs := g.logprobs
		if logprobs == nil {
			logprobs = make([][]float64, len(g.completions))
		}
		list = append(list, logprobs...)
	}
	return list
}

// logSampled returns the log-probabilities of a group that the journal keeps if updates need none. It has only
// those of completions that an update may compute.
func (n *Node) logSampled(g group) [][]float32 {
	list := make([][]float32, len(g.completions))
	if sapo.AllEqual(g.rewards) && n.Config.Beta == 0 {
		return list
	}
	for i, logprobs := range sampledWith(g) {
		list[i] = policy.SinglePrecision(logprobs)
	}
	return list
}

// watchSampling warns when sampler and trainer begin to disagree. It warns again only after a round in which they
// agreed. It ignores a round without the figure.
func (n *Node) watchSampling(round int, result policy.UpdateResult) {
	if result.SamplingTokens == 0 {
		return
	}
	largest, mean := result.SamplingLogpDifferenceMax, result.SamplingLogpDifferenceMean
	told := n.disagrees
	n.disagrees = largest > samplingLimit
	if !n.disagrees || told {
		return
	}
	n.Logger.Warn("sampler and trainer disagree", "round", round, "max", largest, "mean", mean)
	if n.Warn != nil {
		n.Warn(n.disagreement(round, largest, mean))
	}
}

// disagreement is the warning about a difference between the sampler's and the trainer's log-probabilities, with
// the remedies.
func (n *Node) disagreement(round int, largest, mean float64) string {
	precision, remedies := "fp32", []string{"a newer torch"} // fp32 is the engine's only precision on a CPU
	if n.OnGPU {
		precision = n.Config.ResolvedPrecision(true)
		if precision != "fp32" {
			remedies = append([]string{"precision: fp32"}, remedies...)
		}
		if n.Config.CUDAGraphs {
			remedies = append([]string{"cuda_graphs: false"}, remedies...)
		}
	}
	note := ""
	if precision == "bf16" || precision == "fp16" {
		note = " (rounding in " + precision + " alone can explain single tokens, but not the mean)"
	}
	return fmt.Sprintf("sampler and trainer disagree in round %d with precision %s: a sampled token's log-probability differs by up to %.3g, mean %.3g%s. "+
		"Training uses different log-probabilities than sampling did. Try: %s", round, precision, largest, mean, note, strings.Join(remedies, ", or "))
}
