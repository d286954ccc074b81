// Package exchange defines how nodes share rollouts: as text, with the question, the answer key and the metadata needed
// to check an answer (paper §3). So a model can learn from the rollouts of any other model. The package owns the types,
// their bounds and their checks. Sub-packages (natsbus, sharedir) implement the transports. The suite in exchangetest
// tests each of them.
//
// The sender of a batch is untrusted. The receiver bounds, checks and scores its content again. It never evaluates the
// content and never uses it as a path.
package exchange

import (
	"context"
	"encoding/json"
	"errors"
	"time"
)

// Version is the version of the batch format. Every batch carries it.
const Version = 1

// Bounds of a node's batch for one round. A decoder refuses a larger batch before it allocates.
const (
	MaxBatchBytes      = 8 << 20
	MaxRollouts        = 256
	MaxCompletions     = 256
	MaxQuestionBytes   = 64 << 10
	MaxMetadataBytes   = 64 << 10
	MaxCompletionBytes = 64 << 10
	MaxTokens          = 1 << 20 // in a batch, log-probabilities included
)

// Completion is one answer, as decoded text without special tokens.
type Completion struct {
	Text       string    `json:"text"`
	Terminated bool      `json:"terminated"`         // ended with EOS or a stop token rather than at the length limit
	Tokens     []int     `json:"tokens,omitempty"`   // the sender's token ids, without EOS; only if they differ from the encoding of Text
	Logprobs   []float32 `json:"logprobs,omitempty"` // the sender's log-probabilities of Tokens and of EOS; only with Tokens
	Stopped    bool      `json:"stopped,omitempty"`  // the last of Tokens is a stop token, which ended the completion in place of EOS
}

// Rollout is one question, its answer key and its completions.
type Rollout struct {
	Question    string          `json:"question"`
	Answer      *string         `json:"answer"`
	Metadata    json.RawMessage `json:"metadata"`
	Completions []Completion    `json:"completions"`
}

// Batch holds the rollouts that a node shares in one round.
type Batch struct {
	Version  int       `json:"version"`
	Node     string    `json:"node"`
	Round    int       `json:"round"`
	Rollouts []Rollout `json:"rollouts"`
}

// Barrier sets how long Gather waits.
type Barrier struct {
	Deadline time.Duration // how long to wait for every peer
	Quorum   int           // batches (the node's own excluded) that are enough after Deadline
	Limit    time.Duration // how long to wait for the quorum; then ErrNoQuorum
}

// Window selects the batches that Recent returns.
type Window struct {
	Round     int      // the round that the caller is about to train on
	Staleness int      // batches since the caller shared round Round-Staleness; 0: since it shared Round
	Peers     []string // nodes to return batches of
	Limit     int      // maximum batches per peer; the newest are returned
}

// Errors that callers branch on.
var (
	// ErrRefused reports that the swarm checked a batch and rejected it. The swarm continues without the batch, and so
	// can the caller. The error carries the reason.
	ErrRefused  = errors.New("the swarm refused the rollouts")
	ErrNoQuorum = errors.New("too few peers shared their rollouts in time")
	ErrClosed   = errors.New("exchange is closed")
	ErrInvalid  = errors.New("invalid batch")
)

// Exchange carries a swarm's rollouts. Implementations are safe for concurrent use.
type Exchange interface {
	// Publish shares a batch durably within the exchange: once it returns nil, every peer's Gather of that round sees
	// the batch. It is idempotent by (node, round): the first published batch counts, and repeats change nothing. It
	// retries a lost connection until ctx ends. Errors of Publish and Gather name the operation and the round. A batch
	// above the bounds gives ErrInvalid.
	Publish(ctx context.Context, batch Batch) error

	// Gather returns the batches that the given peers shared for a round, in the order of peers. The entry of a peer
	// that has not shared is nil. It returns as soon as all batches are there. After barrier.Deadline it returns as
	// soon as barrier.Quorum batches are there, and after barrier.Limit with ErrNoQuorum. A batch that can't be
	// decoded, breaks a bound, or names another node or round than its subject counts as shared. It comes back with no
	// rollouts and a Rejected reason. Gather has no side effects and can be repeated, also for past rounds that are
	// still retained.
	Gather(ctx context.Context, round int, peers []string, barrier Barrier) ([]*Received, error)

	// Recent returns at once what the given peers shared recently, of any round. Batches are sorted by peer in the
	// order of window.Peers, then oldest first, and have Received.Age set. "Recently" means: after the caller's own
	// batch of round window.Round-window.Staleness, in the order of arrival at the exchange, not by clocks. If the
	// caller has shared no batch that old, it means: after the caller joined. Batches are rejected as in Gather.
	// Repeating the call with the same window may return more.
	Recent(ctx context.Context, window Window) ([]*Received, error)

	// Close releases the connection. Calls in progress return ErrClosed.
	Close() error
}

// Received is one peer's batch as it arrived.
type Received struct {
	Batch
	Bytes    int
	Rejected string // why the batch was rejected; empty if it was accepted
	Age      int    // set by Recent: how many of the caller's rounds ago the batch arrived, 0..Staleness
}
