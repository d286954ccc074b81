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
	PurposeQuestion  Purpose = "question"  // which item a question slot draws
	PurposeGenerate  Purpose = "generate"  // sampling of completions
	PurposeExternals Purpose = "externals" // which of the others' rollouts are used
	PurposePeers     Purpose = "peers"     // which of many peers a node gathers from
	PurposeHeldOut   Purpose = "held_out"  // held-out questions; round is not part of it, and in an evaluation the experiment is not either
	PurposeEvaluate  Purpose = "evaluate"  // sampling of their completions; experiment, node and round are not part of it
	PurposeValidate  Purpose = "validate"  // held-out questions that a split is judged by; experiment, node and round are not part of it
	PurposeSplit     Purpose = "split"     // which split of I and J is tried
	PurposePretrain  Purpose = "pretrain"
)

// Seed derives a 64-bit seed from (experiment seed, node, round, purpose, index): the first bytes of SHA-256 over their
// unambiguous text. The same five give the same seed for ever, whatever was scheduled or died in between; any other
// five an unrelated one.
func Seed(experiment int64, node string, round int, purpose Purpose, index int) uint64 {
	sum := sha256.Sum256(fmt.Appendf(nil, "swarm seed v1|%d|%q|%d|%s|%d", experiment, node, round, purpose, index))
	return binary.LittleEndian.Uint64(sum[:8])
}

// EngineSeed is Seed cut to the engine's range, [0, 2^53): every JSON reader keeps it exact.
func EngineSeed(experiment int64, node string, round int, purpose Purpose, index int) int64 {
	return int64(Seed(experiment, node, round, purpose, index) >> 11)
}
