// Package exchange defines how nodes share rollouts: as text, with the question, the answer key and the metadata that
// says how to check an answer (paper §3), so that any model can learn from any other's. It owns the types, their bounds
// and their checks; the ways to carry them live in sub-packages (natsbus), each held to the suite in exchangetest.
//
// Whatever arrives is an untrusted sender's: bounded, checked, re-scored by the receiver, never evaluated, never a
// path.
package exchange

import (
	"context"
	"encoding/json"
	"errors"
	"time"
)

// Version is the format's version; it is on every batch.
const Version = 1

// Bounds of what a node may send in one round. A decoder refuses anything above them before it allocates.
const (
	MaxBatchBytes      = 8 << 20
	MaxRollouts        = 256
	MaxCompletions     = 256
	MaxQuestionBytes   = 64 << 10
	MaxMetadataBytes   = 64 << 10
	MaxCompletionBytes = 64 << 10
	MaxTokens          = 1 << 20 // of a batch, their log-probabilities counted too
)

// Completion is one answer, as decoded text without special tokens.
type Completion struct {
	Text       string    `json:"text"`
	Terminated bool      `json:"terminated"`         // ended by itself rather than at the length limit
	Tokens     []int     `json:"tokens,omitempty"`   // the sender's ids, without the one that ended it, where Text encodes to others
	Logprobs   []float32 `json:"logprobs,omitempty"` // what the sender gave its ids, and the one that ended it; with Tokens
}

// Rollout is one question, its answer key and its completions.
type Rollout struct {
	Question    string          `json:"question"`
	Answer      *string         `json:"answer"`
	Metadata    json.RawMessage `json:"metadata"`
	Completions []Completion    `json:"completions"`
}

// Batch is what a node shares in one round.
type Batch struct {
	Version  int       `json:"version"`
	Node     string    `json:"node"`
	Round    int       `json:"round"`
	Rollouts []Rollout `json:"rollouts"`
}

// Barrier says how long Gather waits.
type Barrier struct {
	Deadline time.Duration // every peer is waited for until then
	Quorum   int           // batches (own excluded) that must be there to go on after the deadline
	Limit    time.Duration // bound of the wait for the quorum; afterwards ErrNoQuorum
}

// Window says what Recent looks at.
type Window struct {
	Round     int      // the caller's own, that it is about to train on
	Staleness int      // what arrived since the caller shared its round Round-Staleness; 0: since it shared this one
	Peers     []string // whose
	Limit     int      // newest batches of a peer, at most
}

// Errors callers branch on.
var (
	// ErrRefused says that a batch was looked at and not taken: the swarm goes on without it, and so may the caller. It
	// carries the reason.
	ErrRefused  = errors.New("the swarm refused the rollouts")
	ErrNoQuorum = errors.New("too few peers shared their rollouts in time")
	ErrClosed   = errors.New("exchange is closed")
	ErrInvalid  = errors.New("invalid batch")
)

// Exchange carries a swarm's rollouts. Implementations are safe for concurrent use.
type Exchange interface {
	// Publish shares a batch durably within the exchange: when it returns nil, every peer's Gather of that round will
	// see it. It is idempotent by (node, round): the first batch published counts, repeats change nothing. It
	// retries a lost connection until ctx ends. Its errors, as Gather's, name the operation and the round. It returns
	// ErrInvalid for a batch above the bounds.
	Publish(ctx context.Context, batch Batch) error

	// Gather returns the batches of the given peers for a round, in the order of peers, a nil entry for one that has
	// not shared. It returns as soon as all are there; after barrier.Deadline as soon as barrier.Quorum are; after
	// barrier.Limit with ErrNoQuorum. A batch that can't be decoded, breaks a bound, or names another node or round
	// than its subject counts as shared and comes back with no rollouts and its Rejected reason. Gather changes nothing
	// and can be called again, also for past rounds that are still retained.
	Gather(ctx context.Context, round int, peers []string, barrier Barrier) ([]*Received, error)

	// Recent returns at once what the given peers shared lately, whatever their rounds: by peer in the order of
	// window.Peers, and of one peer oldest first, with Received.Age. Lately is told by the order of arrival at the
	// exchange, never by clocks: what came after the caller's own batch of round window.Round-window.Staleness (or,
	// where the caller has shared none so old, after it joined). A peer's batch is refused as by Gather. Calling it
	// again with the same window may return more.
	Recent(ctx context.Context, window Window) ([]*Received, error)

	// Close releases the connection; calls in progress return ErrClosed.
	Close() error
}

// Received is one peer's batch as it arrived.
type Received struct {
	Batch
	Bytes    int
	Rejected string // why it was refused, empty if it wasn't
	Age      int    // from Recent: how many of the caller's rounds ago it arrived, 0..Staleness
}
