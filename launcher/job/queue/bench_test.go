package queue

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// BenchmarkTry is the cost of a look at the queue by the last of so many tickets, a twentieth of which have a claim on
// one of 8 GPUs. The bound for 1,000 is 50 ms.
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
			b.ReportMetric((processorTime(b)-began).Seconds()*1e3/float64(b.N), "cpu-ms/op") // what the wall clock shows on an idle machine
		})
	}
}

// processorTime is what this process has used.
func processorTime(b *testing.B) time.Duration {
	var used unix.Rusage
	require.NoError(b, unix.Getrusage(unix.RUSAGE_SELF, &used))
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// BenchmarkStart is what the queue adds to a command's start when nobody else is there: it enters, takes a GPU and
// leaves.
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

// BenchmarkWatch is what a ticket that waits does five times a second.
func BenchmarkWatch(b *testing.B) {
	q := open(b, b.TempDir())
	enter(b, q, "job", Need{})
	for b.Loop() {
		q.watch()
	}
}
