// Package protocol defines what a launcher writes to the stdin of a node: one JSON object a line. It owns the commands
// and the node's assignment. What a node reports on its stdout is metrics/event.Event. Bytes are bytes, rounds count
// from 0.
//
// It imports metrics/event alone, so that host packages may import it.
package protocol

import "github.com/sapo-swarm/swarm/metrics/event"

// Version is the version of the launcher-node protocol. A node refuses another one.
const Version = 5

// Command is what a launcher writes to a node's stdin. The node exits when its stdin closes.
type Command struct {
	Type  CommandType  `json:"type"`
	Start *Start       `json:"start,omitempty"`
	Lease *event.Lease `json:"lease,omitempty"`

	Members []Member `json:"members,omitempty"`

	BudgetBytes int64 `json:"budget_bytes,omitempty"`
}

// CommandType names a Command.
type CommandType string

// Commands.
const (
	CommandStart   CommandType = "start"   // first line: everything the node needs
	CommandGrant   CommandType = "grant"   // Lease set: compute
	CommandBudget  CommandType = "budget"  // BudgetBytes set: the node's new device memory budget
	CommandMembers CommandType = "members" // Members set: the swarm as it is now; who is missing has been given up or has left
	CommandStop    CommandType = "stop"    // finish the current step, checkpoint, exit 0
)
