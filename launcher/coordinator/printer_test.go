package coordinator

import (
	"bufio"
	"io"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/metrics/event"
)

// Nodes never wait for the reader of stdout. If it is too slow, events are left out and counted.
// Time stands still while they are added, so that the printer does not empty the queue between them.
func TestPrinterLeavesOut(t *testing.T) { synctest.Test(t, printerLeavesOut) }

func printerLeavesOut(t *testing.T) {
	read, write := io.Pipe()
	p := newPrinter(write)
	const more = 10
	for range printerQueue + 1 + more { // one is already taken by the printer
		p.add(event.Event{Type: event.TypeState})
	}
	lines := bufio.NewReader(read)
	seen := 0
	for ; seen <= printerQueue/2; seen++ {
		_, err := lines.ReadString('\n')
		require.NoError(t, err)
	}
	p.add(event.Event{Type: event.TypeRunEnded})
	go func() {
		p.close()
		write.Close()
	}()
	var rest []event.Event
	reader := event.NewReader(lines, event.MaxLine)
	for {
		var e event.Event
		if err := reader.Read(&e); err != nil {
			require.ErrorIs(t, err, io.EOF)
			break
		}
		rest = append(rest, e)
	}
	require.Equal(t, event.TypeRunEnded, rest[len(rest)-1].Type)
	warning := rest[len(rest)-2]
	require.Equal(t, event.TypeWarning, warning.Type)
	require.Regexp(t, `^1[01] events dropped: `, warning.Message)
}
