// Package journal is a node's write-ahead log. The input of an update is on disk before the update begins. So a
// restarted node restores its weights from a checkpoint and the logged updates, without generating again. The journal
// also keeps the node's completions and shared batches. It serves a peer's lost rollouts, and swarm verify checks a
// finished run against it.
//
// A folder holds segments named journal-RRRRRRRR.log. R is the segment's first round. A segment begins at a checkpoint
// or at a start. A record has its length, kind, round and CRC-32C. Its payload is compressed JSON. A torn or damaged
// record ends the readable part of its segment. The journal is the authoritative record of a node. The message bus is a
// cache of it.
//
// The package owns the files and their format. It defines the records' types, but not what a node does with them. Of
// this module it imports only the packages of those types and internal packages.
package journal

import (
	"encoding/json"
	"errors"

	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/node/policy"
)

// Errors that callers branch on.
var (
	ErrNotFound = errors.New("not in the journal")
	ErrDamaged  = errors.New("the journal is damaged")
	ErrVersion  = errors.New("a newer version of the program wrote the journal") // the error names a remedy; the file is intact
	ErrInUse    = errors.New("another process is writing this journal")
)

// Generated holds the completions that a node generated for its own questions in a round. It is logged before they are
// shared.
type Generated struct {
	Seed        int64           `json:"seed"` // of the sampling
	Completions [][]int         `json:"completions"`
	Terminated  []bool          `json:"terminated"`
	Logprobs    [][]float64     `json:"logprobs,omitempty"` // only with Config.KeepsLogprobs
	Sampled     [][]float32     `json:"sampled,omitempty"`  // otherwise: log-probabilities of the completions that the update may use, null for others
	Entropy     float64         `json:"entropy"`
	Seconds     float64         `json:"seconds"` // inside the generate call
	Batch       json.RawMessage `json:"batch"`   // exchange.Batch as published

	// Split is the state of the policy that decides the rounds' I and J, as of this round. Only the node reads it. It
	// is empty if I and J are the configured ones.
	Split json.RawMessage `json:"split,omitempty"`
}

// External identifies a peer's rollout: its node, that node's round, and the rollout's index in the batch.
type External struct {
	Node  string `json:"node"`
	Round int    `json:"round"`
	Index int    `json:"index"`
}

// Trained is a round's training set, with the report's values before the update. The record is on disk before the
// update begins.
type Trained struct {
	Update policy.UpdateParams `json:"update"` // without SamplingLogprobs, which Generated holds (see Round.Update)
	Report event.Round         `json:"report"` // without the update's results

	// Externals are the peers' rollouts in the training set that the node may receive again, in order. The node must
	// not draw any of them twice.
	Externals []External `json:"externals,omitempty"`
}

// Done is the event that reported the round. It is logged after the event was sent, without a sync.
type Done struct {
	Event event.Event `json:"event"`
}

// Round holds a round's records, nil for a record that was not written. If a record was written twice, the later one
// counts.
type Round struct {
	Round     int
	Generated *Generated
	Trained   *Trained
	Done      *Done
}
