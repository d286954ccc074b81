// Package task holds the nine reasoning-gym tasks of the SAPO paper: for each a generator, which for
// a seed yields the library's own items, and a verifier, which gives the library's own scores.
//
// It owns questions, answer keys and rewards. It takes seeds and text. It reads no clock and no network, no
// file but those Open is told to, and never evaluates model text; a verifier answers every input within bounded time.
package task

import (
	"encoding/json"
	"errors"
)

// Item is one question with its answer key, as reasoning-gym's datasets yield it.
type Item struct {
	Question string `json:"question"`
	// Answer is nil where the library's answer is null (propositional_logic).
	Answer *string `json:"answer"`
	// Metadata is a JSON object in the library's key order and number formatting, byte for byte. It says how to
	// check an answer and always holds source_dataset, source_index and difficulty.
	Metadata json.RawMessage `json:"metadata"`
}

// Task generates and verifies the items of one reasoning-gym dataset. Implementations are immutable
// and safe for concurrent use.
type Task interface {
	// Name is the dataset's name, e.g. "basic_arithmetic".
	Name() string
	// Item is item index of the dataset seeded with seed: the library seeds item i's generator with
	// seed+i. index must not be negative.
	Item(seed, index int64) Item
	// Score is the library's reward in [0, 1] for answer (nil: the completion had no answer tags). It
	// returns 0 where the library raises, and for an item whose metadata it cannot read.
	Score(item Item, answer *string) float64
}

// ErrUnknownTask is returned by New for a name that is none of the nine.
var ErrUnknownTask = errors.New("unknown task")

// Task is the name of the dataset an item comes from, "" when its metadata names none.
func (i Item) Task() string {
	var meta struct {
		Source string `json:"source_dataset"`
	}
	if readMetadata(i, &meta) != nil {
		return ""
	}
	return meta.Source
}
