// Package task holds the nine reasoning-gym tasks of the SAPO paper. Each has a generator, which yields the
// library's own items for a seed, and a verifier, which gives the library's own scores.
//
// The package owns questions, answer keys and rewards. It takes seeds and text. It uses no clock and no network,
// reads only the files given to Open, and never evaluates model text. A verifier handles every input within bounded
// time.
package task

import (
	"encoding/json"
	"errors"
)

// Item is one question with its answer key, as reasoning-gym's datasets yield it.
type Item struct {
	Question string `json:"question"`
	// Answer is nil if the library's answer is null (propositional_logic).
	Answer *string `json:"answer"`
	// Metadata is a JSON object in the library's key order and number formatting, byte for byte. It has the data to
	// check an answer, and always source_dataset, source_index and difficulty.
	Metadata json.RawMessage `json:"metadata"`
}

// Task generates and verifies the items of one reasoning-gym dataset. Implementations are immutable
// and safe for concurrent use.
type Task interface {
	// Name is the dataset's name, e.g. "basic_arithmetic".
	Name() string
	// Item returns item index of the dataset with this seed. The library seeds item i's generator with seed+i.
	// index must not be negative.
	Item(seed, index int64) Item
	// Score is the library's reward in [0, 1] for answer (nil: the completion had no answer tags). It is 0 where
	// the library raises, and for an item with unreadable metadata.
	Score(item Item, answer *string) float64
}

// ErrUnknownTask is returned by New for a name that is not one of the nine.
var ErrUnknownTask = errors.New("unknown task")

// Task returns the name of the item's dataset, "" if the metadata name none.
func (i Item) Task() string {
	var meta struct {
		Source string `json:"source_dataset"`
	}
	if readMetadata(i, &meta) != nil {
		return ""
	}
	return meta.Source
}
