package queue

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// BenchmarkTry measures one look at the queue by the last of so many tickets. A twentieth of the tickets have a claim
// on one of 8 GPUs. The bound for 1,000 tickets is 50 ms.
func BenchmarkTry(b *testing.B) {
	for _, tickets := range []int{1, 10, 100, 1000} {
		b.Run(fmt.Sprintf("tickets=%d", tickets), func(b *testing.B) {
			q := open(b, b.TempDir())
			var devices []Device
			for i := range 8 {
				devices = append(devices, Device{GPU: fmt.Sprint("GPU-", i), Index: i, Total: 80e9, Free: 80e9, Processes: map[int]int64{}})
			}
			for i := range tickets - 1 {
				ticket := enter(b, q, fmt.Sprint("job ", i), Need{Bytes: 1e9})
				if i%20 == 0 {
					_, _, err := ticket.Try(devices)
					require.NoError(b, err)
				}
			}
			last := enter(b, q, "last", Need{Bytes: 79e9})
			began := processorTime(b)
			for b.Loop() {
				_, verdict, err := last.Try(devices)
				require.NoError(b, err)
				if verdict.Granted {
					require.NoError(b, last.Release())
				}
			}
			b.ReportMetric((processorTime(b)-began).Seconds()*1e3/float64(b.N), "cpu-ms/op") // equals the wall time on an idle machine
		})
	}
}

// processorTime returns the CPU time of this process.
func processorTime(b *testing.B) time.Duration {
	var used unix.Rusage
	require.NoError(b, unix.Getrusage(unix.RUSAGE_SELF, &used))
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// BenchmarkStart measures what an empty queue adds to a command's start: enter, take a GPU and leave.
func BenchmarkStart(b *testing.B) {
	dir, devices := b.TempDir(), card()
	for b.Loop() {
		q, err := Open(dir)
		require.NoError(b, err)
		ticket, err := q.Enter("job", Need{Bytes: 6})
		require.NoError(b, err)
		_, verdict, err := ticket.Try(devices)
		require.NoError(b, err)
		require.True(b, verdict.Granted)
		require.NoError(b, ticket.Leave())
	}
}

// BenchmarkWatch measures the check that a waiting ticket makes five times a second.
func BenchmarkWatch(b *testing.B) {
	q := open(b, b.TempDir())
	enter(b, q, "job", Need{})
	for b.Loop() {
		q.watch()
	}
}
