package e2e

import (
	"fmt"

	"github.com/sapo-swarm/swarm/node/journal"
)

// journalWhole reports what is missing from a node's journal. It must have every round's own generation and training
// set, whatever happened to the processes that wrote it.
func journalWhole(dir string, rounds int) error {
	next := 0
	for r, err := range journal.Rounds(dir, 0) {
		switch {
		case err != nil:
			return fmt.Errorf("journal %s: %w", dir, err)
		case r.Round != next || r.Generated == nil || r.Trained == nil:
			return fmt.Errorf("journal %s: round %d instead of %d, generated %t, trained %t", dir, r.Round, next, r.Generated != nil, r.Trained != nil)
		}
		next++
	}
	if next != rounds {
		return fmt.Errorf("journal %s: %d of %d rounds", dir, next, rounds)
	}
	return nil
}
