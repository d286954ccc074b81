package sapo

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
)

// Purpose separates the random streams of one node's round.
type Purpose string

// Purposes.
const (
	PurposeQuestion  Purpose = "question"  // item of a question slot
	PurposeGenerate  Purpose = "generate"  // sampling of completions
	PurposeExternals Purpose = "externals" // which external rollouts to use
	PurposePeers     Purpose = "peers"     // which of many peers a node gathers from
	PurposeHeldOut   Purpose = "held_out"  // held-out questions; independent of the round, in an evaluation also of the experiment
	PurposeEvaluate  Purpose = "evaluate"  // sampling of their completions; independent of experiment and round
	PurposeValidate  Purpose = "validate"  // held-out questions for splits; independent of experiment, node and round
	PurposeSelect    Purpose = "select"    // held-out questions for a node's best weights; independent of experiment, node and round
	PurposeSplit     Purpose = "split"     // which split of I and J to try
	PurposePretrain  Purpose = "pretrain"
)

// Seed derives a 64-bit seed from (experiment seed, node, round, purpose, index): the first bytes of SHA-256 over
// their unambiguous text. The same five values always give the same seed, independent of scheduling and failures.
// Any other five give an unrelated seed.
func Seed(experiment int64, node string, round int, purpose Purpose, index int) uint64 {
	sum := sha256.Sum256(fmt.Appendf(nil, "swarm seed v1|%d|%q|%d|%s|%d", experiment, node, round, purpose, index))
	return binary.LittleEndian.Uint64(sum[:8])
}

// EngineSeed is Seed reduced to the engine's range, [0, 2^53), which every JSON reader represents exactly.
func EngineSeed(experiment int64, node string, round int, purpose Purpose, index int) int64 {
	return int64(Seed(experiment, node, round, purpose, index) >> 11)
}
