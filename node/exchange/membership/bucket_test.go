package membership

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// affords delivers for a worker as much as its rates allow within a time, in deliveries of 100 events and size bytes.
// It returns the bytes, and how long the worker waited.
func (d *testServer) affords(s *session, limit int64, over time.Duration, size int) (bytes int64, took time.Duration) {
	for end := d.clock().Add(over); bytes < limit && d.clock().Before(end); {
		if wait := d.afford(s, 100, size); wait > 0 {
			d.later(wait)
			took += wait
			continue
		}
		bytes += int64(size)
	}
	return bytes, took
}

func TestAStrangerDoesNotFillTheDiskInADay(t *testing.T) {
	d := newTestServer(t, nil)
	_, err := d.join("w", NodeInfo{})
	require.NoError(t, err)
	const day = 24 * time.Hour
	bytes, _ := d.affords(d.sessions["w"], 1<<62, day, MaxMessageBytes)
	require.LessOrEqual(t, bytes, int64(keptBurst+keptRate*day.Seconds()+MaxMessageBytes))
	require.Less(t, bytes, int64(7e9))

	for d.afford(d.sessions["w"], 100, MaxMessageBytes) == 0 { // use up the allowance
	}
	full := make([]json.RawMessage, 5)
	for i := range full {
		full[i] = json.RawMessage(fmt.Sprintf(`{"type":"warning","time":1,"message":%q}`, strings.Repeat("x", 200<<10)))
	}
	receipt, err := d.Deliver(t.Context(), "w", Delivery{Protocol: Protocol, Run: "run", Outbox: "o", First: 1, Events: full})
	require.NoError(t, err)
	require.Zero(t, receipt.Acked)
	require.Positive(t, receipt.RetryAfter)
	require.Contains(t, d.Workers()[0].Reason, "64 KiB/s on average", "swarm workers shows it")
}

// After an hour's outage, eight nodes deliver their events within minutes, without a warning about their rate. Each
// node has reported a round of 10 kB every two seconds.
func TestAnHoursOutageDrainsQuickly(t *testing.T) {
	d := newTestServer(t, nil)
	_, err := d.join("w", make([]NodeInfo, 8)...)
	require.NoError(t, err)
	s := d.sessions["w"]
	d.affords(s, 10e6, time.Hour, 100_000) // before the outage
	d.later(time.Hour)
	const told = 8 * 1800 * 10_000
	bytes, took := d.affords(s, told, time.Hour, 100_000)
	require.GreaterOrEqual(t, bytes, int64(told))
	require.Less(t, took, 10*time.Minute)
	require.Empty(t, s.reason)
}
