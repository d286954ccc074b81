package membership

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sapo-swarm/swarm/internal/hermetic"
	"github.com/sapo-swarm/swarm/metrics/event"
)

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func outbox(t testing.TB, dir string) *Outbox {
	t.Helper()
	o, err := OpenOutbox(dir, quiet())
	require.NoError(t, err)
	return o
}

// memory returns a folder in memory: it survives the kill of a process, and syncs are free.
func memory(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "membership")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	return dir
}

// told returns the event with that number, a warning or a measurement.
func told(n int) event.Event {
	if n%3 == 1 {
		return event.Event{Type: event.TypeState, Time: float64(n), Node: "a", State: event.StateGenerating, Message: "<x>"}
	}
	return event.Event{Type: event.TypeWarning, Time: float64(n), Node: "a"}
}

func fill(t testing.TB, o *Outbox, from, to int) {
	t.Helper()
	for n := from; n <= to; n++ {
		require.NoError(t, o.Append(told(n)))
	}
}

// numbers returns the events' numbers, -1 for tombstones.
func numbers(t require.TestingT, raws []json.RawMessage) (list []int) {
	for _, raw := range raws {
		var e event.Event
		require.NoError(t, json.Unmarshal(raw, &e))
		if e.Type == "" {
			e.Time = -1
		}
		list = append(list, int(e.Time))
	}
	return list
}

// empty delivers everything, like a coordinator that accepts all events.
func empty(t require.TestingT, o *Outbox) (list []int) {
	for {
		d, err := o.Next(7, deliverBytes)
		require.NoError(t, err)
		if len(d.Events) == 0 {
			return list
		}
		list = append(list, numbers(t, d.Events)...)
		require.NoError(t, o.Ack(d.First+int64(len(d.Events))-1))
	}
}

func upTo(from, to int) (list []int) {
	for n := from; n <= to; n++ {
		list = append(list, n)
	}
	return list
}

func TestAnOutboxKeepsEventsUntilTheyAreAcknowledged(t *testing.T) {
	dir := t.TempDir()
	o := outbox(t, dir)
	fill(t, o, 1, 20)
	d, err := o.Next(5, deliverBytes)
	require.NoError(t, err)
	require.Equal(t, int64(1), d.First)
	require.Equal(t, upTo(1, 5), numbers(t, d.Events))
	again, err := o.Next(5, deliverBytes)
	require.NoError(t, err)
	require.Equal(t, d, again)
	small, err := o.Next(100, 3*len(d.Events[0]))
	require.NoError(t, err)
	require.NotEmpty(t, small.Events)
	require.Less(t, len(small.Events), 6)
	require.NoError(t, o.Ack(5))
	events, size := o.Pending()
	require.Equal(t, int64(15), events)
	require.Positive(t, size)

	_, err = OpenOutbox(dir, quiet())
	require.ErrorContains(t, err, "another process uses it")
	require.NoError(t, o.Close())
	require.ErrorIs(t, o.Append(told(1)), os.ErrClosed)

	o = outbox(t, dir)
	defer o.Close()
	fill(t, o, 21, 22)
	again, err = o.Next(1, deliverBytes)
	require.NoError(t, err)
	require.Equal(t, d.Outbox, again.Outbox)
	require.NoError(t, o.Ack(5))
	require.Equal(t, upTo(6, 22), empty(t, o))
	events, _ = o.Pending()
	require.Zero(t, events)
}

func TestDeliveredSegmentsAreDeleted(t *testing.T) {
	dir := memory(t)
	o := outbox(t, dir)
	o.kept = 0
	e := told(2)
	e.Message = strings.Repeat("x", 10_000)
	for range 5 << 7 {
		require.NoError(t, o.Append(e))
	}
	count := func() int {
		files, err := filepath.Glob(filepath.Join(dir, "*"+segmentSuffix))
		require.NoError(t, err)
		return len(files)
	}
	require.Greater(t, count(), 4)
	require.Len(t, empty(t, o), 5<<7)
	require.Equal(t, 1, count())
	d, err := o.Next(1, deliverBytes)
	require.NoError(t, err)
	require.Equal(t, int64(5<<7+1), d.First)
	require.NoError(t, o.Close())
}

// A coordinator that lost power after an acknowledgment, or was restored from a backup, gets the lost events again,
// even from a new process of the worker. The data kept for that are bounded.
func TestAReceiptThatGoesBackwards(t *testing.T) {
	dir := memory(t)
	o := outbox(t, dir)
	o.kept = 3 * segmentBytes
	const all = 800 // of 10 kB: eight segments
	for n := 1; n <= all; n++ {
		e := told(n)
		e.Message = strings.Repeat("x", 10_000)
		require.NoError(t, o.Append(e))
	}
	require.Equal(t, upTo(1, all), empty(t, o))
	require.LessOrEqual(t, o.bytes, o.kept+2*segmentBytes)
	before, err := o.Next(1, deliverBytes)
	require.NoError(t, err)
	require.Empty(t, before.Events)
	for _, lost := range []int{1, 150, 250} {
		require.NoError(t, o.Ack(int64(all-lost)))
		events, _ := o.Pending()
		require.Equal(t, int64(lost), events)
		require.Equal(t, upTo(all-lost+1, all), empty(t, o))
	}
	require.NoError(t, o.Close())
	o = outbox(t, dir)
	events, _ := o.Pending()
	require.Zero(t, events, "an outbox remembers what was acknowledged when it was closed")
	fill(t, o, all+1, all+1)
	require.NoError(t, o.Ack(all-100))
	after, err := o.Next(1, deliverBytes)
	require.NoError(t, err)
	require.Equal(t, before.Outbox, after.Outbox)
	require.Equal(t, upTo(all-99, all+1), empty(t, o))
	require.NoError(t, o.Close())
}

// A file may end at any byte after a power failure. The complete events before it survive, and the outbox continues.
func TestAnOutboxCutAtAnyByteLosesOnlyTheTornEvent(t *testing.T) {
	origin := memory(t)
	o := outbox(t, origin)
	fill(t, o, 1, 4)
	path := o.path(o.last().id)
	require.NoError(t, o.Close())
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	dir := filepath.Join(memory(t), "outbox")
	for size := range len(data) + 1 {
		for _, tail := range [][]byte{nil, make([]byte, 9)} { // zeros: a block that was allocated and never written
			require.NoError(t, os.RemoveAll(dir))
			require.NoError(t, os.CopyFS(dir, os.DirFS(origin)))
			require.NoError(t, os.WriteFile(filepath.Join(dir, filepath.Base(path)), append(slices.Clone(data[:size]), tail...), 0o600))
			o := outbox(t, dir)
			whole := bytes.Count(data[:size], []byte{'\n'})
			fill(t, o, whole+1, whole+1)
			require.Equal(t, upTo(1, whole+1), empty(t, o), "%d bytes", size)
			require.NoError(t, o.Close())
		}
	}
}

// Whatever byte is damaged, no wrong event is delivered, and later events keep their numbers.
func TestHarmBecomesATombstone(t *testing.T) {
	var data []byte
	for n := range 5 {
		raw, err := json.Marshal(told(n + 1))
		require.NoError(t, err)
		data = appendLine(data, n, raw)
	}
	for bit := range 8 * len(data) {
		harmed := slices.Clone(data)
		harmed[bit/8] ^= 1 << (bit % 8)
		got := numbers(t, parseSegment(harmed))
		last := bit/8 == len(data)-1
		if last { // the end of the last line: it looks incomplete
			require.Equal(t, upTo(1, 4), got)
			continue
		}
		line := bytes.Count(data[:bit/8], []byte{'\n'})
		require.LessOrEqual(t, len(got), 6) // a new line end in the last line splits it in two
		for i, n := range got {
			harm := i >= 5 || i == line || i == line+1 && data[bit/8] == '\n'
			if !harm || n != -1 { // a checksum in upper case is still correct
				require.Equal(t, i+1, n, "bit %d", bit)
			}
		}
	}
}

// A process killed at any moment loses no event that Append accepted.
func TestKillingTheProcessLosesNothing(t *testing.T) {
	if dir := os.Getenv("MEMBERSHIP_OUTBOX"); dir != "" {
		o := outbox(t, dir)
		for n := 1; ; n++ {
			if o.Append(told(n)) != nil {
				return
			}
			fmt.Println("took", n)
			if n%50 == 0 {
				d, err := o.Next(40, deliverBytes)
				if err != nil || len(d.Events) == 0 || o.Ack(d.First+int64(len(d.Events))-1) != nil {
					return
				}
				fmt.Println("acked", d.First+int64(len(d.Events))-1)
			}
		}
	}
	for _, after := range []int{1, 777} {
		dir := memory(t)
		child := exec.Command(os.Args[0], "-test.run=^TestKillingTheProcessLosesNothing$")
		child.Env = append(os.Environ(), "MEMBERSHIP_OUTBOX="+dir)
		out, err := child.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, child.Start())
		took, acked := 0, 0
		for lines := bufio.NewScanner(out); lines.Scan(); {
			_, _ = fmt.Sscanf(lines.Text(), "took %d", &took)
			_, _ = fmt.Sscanf(lines.Text(), "acked %d", &acked)
			if took == after {
				require.NoError(t, child.Process.Signal(syscall.SIGKILL))
			}
		}
		require.Error(t, child.Wait())
		o := outbox(t, dir)
		d, err := o.Next(1, deliverBytes)
		require.NoError(t, err)
		require.LessOrEqual(t, d.First, int64(acked+41))
		list := empty(t, o)
		require.GreaterOrEqual(t, int(d.First)+len(list)-1, took)
		require.Equal(t, upTo(int(d.First), int(d.First)+len(list)-1), list)
		require.NoError(t, o.Close())
	}
}

func TestAFullOutboxLeavesOutMeasurementsFirst(t *testing.T) {
	dir := memory(t)
	o := outbox(t, dir)
	defer o.Close()
	o.limit = 8 * segmentBytes
	fill(t, o, 1, 2)
	first, err := o.Next(2, deliverBytes) // returned by Next: this segment must not change
	require.NoError(t, err)
	others := 0
	for n := 3; ; n++ {
		e := told(n)
		e.Message = strings.Repeat("m", 10_000)
		require.NoError(t, o.Append(e))
		require.LessOrEqual(t, o.bytes, o.limit+segmentBytes)
		if e.Type == event.TypeWarning {
			others++
		}
		if measurements, lost := o.Dropped(); measurements > 100 {
			require.Zero(t, lost, "nothing else is lost while there are measurements")
			break
		}
	}
	again, err := o.Next(2, deliverBytes)
	require.NoError(t, err)
	require.Equal(t, first, again)
	list := empty(t, o)
	require.True(t, slices.IsSorted(list))
	got := 0
	for _, n := range list[2:] {
		if n%3 != 1 {
			got++
		}
	}
	require.Equal(t, others, got, "every other event is there")
	dropped, _ := o.Dropped()
	require.Equal(t, list[len(list)-1], len(list)+int(dropped), "what was left out is counted")

	for n := 0; ; n++ { // no measurements left
		e := told(3 * n)
		e.Message = strings.Repeat("m", 10_000)
		require.NoError(t, o.Append(e))
		if _, others := o.Dropped(); others > 0 {
			break
		}
		require.Less(t, n, 10_000)
	}
	require.LessOrEqual(t, o.bytes, o.limit+segmentBytes)
}

func TestAnOutboxThatDisagreesBeginsAgain(t *testing.T) {
	for name, acked := range map[string]int64{"the coordinator knows more": 99, "the coordinator has lost what it had": -1} {
		dir := t.TempDir()
		o := outbox(t, dir)
		o.state.First, o.acked = 11, 10 // ten events were delivered and deleted
		fill(t, o, 11, 20)
		d, err := o.Next(1, deliverBytes)
		require.NoError(t, err)
		if acked < 0 {
			acked = 0
		}
		require.NoError(t, o.Ack(acked))
		again, err := o.Next(100, deliverBytes)
		require.NoError(t, err)
		require.NotEqual(t, d.Outbox, again.Outbox, name)
		require.Equal(t, int64(1), again.First)
		require.Equal(t, upTo(11, 20), numbers(t, again.Events), "nothing is left out")
		require.NoError(t, o.Close())
		o = outbox(t, dir)
		third, err := o.Next(100, deliverBytes)
		require.NoError(t, err)
		require.Equal(t, again, third, "it remembers")
		require.NoError(t, o.Close())
	}
}

// A full disk gives one error, and the outbox continues when there is space again.
func TestAFullDiskGivesOneError(t *testing.T) {
	hermetic.Root(t)
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=256k"); err != nil {
		t.Skipf("mounting a small tmpfs needs root: %v", err)
	}
	defer func() { require.NoError(t, syscall.Unmount(dir, 0)) }()
	o := outbox(t, dir)
	n, kept := 0, 0
	var failed error
	for ; failed == nil; n++ {
		if failed = o.Append(told(n + 1)); failed == nil {
			kept++
		}
		require.Less(t, n, 10_000)
	}
	require.ErrorIs(t, failed, syscall.ENOSPC)
	require.ErrorContains(t, failed, ". Try: ")
	require.NotContains(t, failed.Error(), "\n")
	require.NoError(t, o.Append(told(n+1)), "once is enough")
	require.NoError(t, syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_REMOUNT, "size=4m"))
	fill(t, o, 5001, 5003)
	list := empty(t, o)
	require.Equal(t, append(upTo(1, kept), 5001, 5002, 5003), list)
	_, lost := o.Dropped()
	require.Equal(t, int64(2), lost)
	require.NoError(t, o.Close())
}

func TestAnEventThatIsTooLargeIsLeftOut(t *testing.T) {
	o := outbox(t, t.TempDir())
	defer o.Close()
	e := told(1)
	e.Message = strings.Repeat("x", MaxEventBytes)
	require.NoError(t, o.Append(e))
	fill(t, o, 2, 2)
	require.Equal(t, []int{2}, empty(t, o))
	_, lost := o.Dropped()
	require.Equal(t, int64(1), lost)
}

// Whatever the order of Append, delivery, Ack, Close and Open, the outbox delivers every event once, in order.
func TestAnyOrderOfUseGivesEveryEventOnce(t *testing.T) {
	root := memory(t)
	life := 0
	rapid.Check(t, func(t *rapid.T) {
		life++
		dir := filepath.Join(root, fmt.Sprint(life))
		o, err := OpenOutbox(dir, quiet())
		require.NoError(t, err)
		defer func() { _ = o.Close() }()
		o.kept = 1 << 40
		next, got, acked := 1, []int(nil), int64(0)
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			switch rapid.SampledFrom([]string{"append", "append", "deliver", "lost receipt", "open", "rotate", "set back"}).Draw(t, "step") {
			case "append":
				require.NoError(t, o.Append(told(next)))
				next++
			case "deliver", "lost receipt":
				d, err := o.Next(rapid.IntRange(1, 5).Draw(t, "max"), deliverBytes)
				require.NoError(t, err)
				if last := d.First + int64(len(d.Events)) - 1; last > acked && d.First <= acked+1 {
					got = append(got, numbers(t, d.Events[acked+1-d.First:])...)
					acked = last
				}
				if rapid.Bool().Draw(t, "receipt") {
					require.NoError(t, o.Ack(acked))
				}
			case "open":
				require.NoError(t, o.Close())
				o, err = OpenOutbox(dir, quiet())
				require.NoError(t, err)
				o.kept = 1 << 40
			case "set back": // the coordinator loses some of its events
				if back := acked - rapid.Int64Range(0, min(acked, 3)).Draw(t, "back"); back < acked {
					acked, got = back, got[:back]
					require.NoError(t, o.Ack(acked))
				}
			case "rotate":
				o.last().bytes += segmentBytes
				o.bytes += segmentBytes
			}
		}
		require.NoError(t, o.Ack(acked))
		for {
			d, err := o.Next(100, deliverBytes)
			require.NoError(t, err)
			if len(d.Events) == 0 {
				break
			}
			require.Equal(t, acked+1, d.First)
			got = append(got, numbers(t, d.Events)...)
			acked += int64(len(d.Events))
			require.NoError(t, o.Ack(acked))
		}
		require.Equal(t, upTo(1, next-1), got)
	})
}

func FuzzSegment(f *testing.F) {
	f.Add([]byte("00000000 0 {}\n"))
	f.Add(append(appendLine(appendLine(nil, 0, json.RawMessage(`{"type":"round"}`)), 5, json.RawMessage("{}")), "torn"...))
	f.Add([]byte("\n\nx\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, raw := range parseSegment(data) {
			require.True(t, json.Valid(raw))
			measurement(raw)
		}
		line := appendLine(nil, 3, json.RawMessage(`{"a":1}`))
		index, raw, ok := parseLine(bytes.TrimSuffix(line, []byte{'\n'}))
		require.True(t, ok)
		require.Equal(t, 3, index)
		require.JSONEq(t, `{"a":1}`, string(raw))
	})
}

func BenchmarkAppend(b *testing.B) {
	o := outbox(b, b.TempDir())
	defer o.Close()
	e := told(2)
	for b.Loop() {
		require.NoError(b, o.Append(e))
	}
}
