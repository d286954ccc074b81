// Package journal is a node's write-ahead log. The input of an update is on disk before the update is made, so a
// restarted node restores its weights from a checkpoint and the logged updates, without generating again. It is also
// the run's memory of what was generated and shared, from which a peer's lost rollouts are served and a finished run is
// verified.
//
// A folder holds segments, journal-RRRRRRRR.log, of which each begins with round R and was begun at a checkpoint or a
// start. A record is framed by its length, kind, round and CRC-32C; its payload is compressed JSON. Whatever is torn or
// damaged ends what can be read of its segment. The journal is the truth about a node; the message bus is a cache of
// it.
//
// It owns the files and their format. It knows the records' types, not what a node does with them, and imports of ours
// only those types' packages.
package journal

import (
	"encoding/json"
	"errors"

	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/node/policy"
)

// Errors callers branch on.
var (
	ErrNotFound = errors.New("not in the journal")
	ErrDamaged  = errors.New("the journal is damaged")
	ErrVersion  = errors.New("the journal was written by a newer program") // with a remedy; nothing is wrong with the file
	ErrInUse    = errors.New("another process writes this journal")
)

// Generated is what a node made of its own questions in a round, and shared. It is written before it is shared.
type Generated struct {
	Seed        int64           `json:"seed"` // of the sampling
	Completions [][]int         `json:"completions"`
	Terminated  []bool          `json:"terminated"`
	Logprobs    [][]float64     `json:"logprobs,omitempty"` // only where updates need them: num_iterations above 1
	Sampled     [][]float32     `json:"sampled,omitempty"`  // else: the same of completions that the update may compute, null for others
	Entropy     float64         `json:"entropy"`
	Seconds     float64         `json:"seconds"` // inside the generate call
	Batch       json.RawMessage `json:"batch"`   // exchange.Batch as published

	// Split is the state of what decides the rounds' I and J, as of this round's; the node's own affair. Nothing where
	// they are the configured ones.
	Split json.RawMessage `json:"split,omitempty"`
}

// External names one of the others' rollouts: whose, of which of its rounds, and its place in that batch.
type External struct {
	Node  string `json:"node"`
	Round int    `json:"round"`
	Index int    `json:"index"`
}

// Trained is a round's training set and what is known of the round before its update. It is on disk before the update
// begins.
type Trained struct {
	Update policy.UpdateParams `json:"update"` // without SamplingLogprobs: those are Generated's (Round.Update)
	Report event.Round         `json:"report"` // without the update's results

	// Externals are the others' rollouts in it that may come to the node again, in order: none of them is to be drawn
	// twice.
	Externals []External `json:"externals,omitempty"`
}

// Done is the event that told of the round. It is written after it was sent, and not synced.
type Done struct {
	Event event.Event `json:"event"`
}

// Round is what a journal has of one round; nil: not written. Where a record was written twice, the later one counts.
type Round struct {
	Round     int
	Generated *Generated
	Trained   *Trained
	Done      *Done
}
