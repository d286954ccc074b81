// Package protocol defines the commands that a launcher writes to the stdin of a node: one JSON object a line. It
// owns the commands and the node's assignment. A node's reports on stdout are metrics/event.Event. Sizes are in
// bytes, and rounds count from 0.
//
// It imports only metrics/event, so that host packages may import it.
package protocol

import "github.com/sapo-swarm/swarm/metrics/event"

// Version is the version of the launcher-node protocol. A node refuses any other version.
const Version = 5

// Command is one line on a node's stdin. The node exits when its stdin closes.
type Command struct {
	Type  CommandType  `json:"type"`
	Start *Start       `json:"start,omitempty"`
	Lease *event.Lease `json:"lease,omitempty"`

	Members []Member `json:"members,omitempty"`

	BudgetBytes int64 `json:"budget_bytes,omitempty"`

	Verdicts *Verdicts `json:"verdicts,omitempty"`
}

// CommandType names a Command.
type CommandType string

// Commands.
const (
	CommandStart   CommandType = "start"   // first line: the whole assignment
	CommandGrant   CommandType = "grant"   // Lease is set: the node may compute
	CommandBudget  CommandType = "budget"  // BudgetBytes set: the node's new device memory budget
	CommandMembers CommandType = "members" // Members is set: the current swarm, without members that were given up or have left
	CommandVerdict CommandType = "verdict" // Verdicts set: all of the alarm's
	CommandStop    CommandType = "stop"    // finish the current step, checkpoint, exit 0
)
