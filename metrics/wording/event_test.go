package wording

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/metrics/event"
)

// An unknown cause adds nothing to a message.
func TestWhy(t *testing.T) {
	t.Parallel()
	require.Equal(t, "killed by signal 9 (killed)", Why(event.CauseUnknown, "killed by signal 9 (killed)"))
	require.Equal(t, "out_of_memory: 3 GB asked for", Why("out_of_memory", "3 GB asked for"))
	require.Equal(t, "unknown", Why(event.CauseUnknown, ""))
	require.Empty(t, Why("", ""))
	e := event.Event{Type: event.TypeExit, Node: "node_1", Cause: event.CauseUnknown, Message: "killed by signal 9 (killed)"}
	require.NotContains(t, Event(e), "unknown")
}
