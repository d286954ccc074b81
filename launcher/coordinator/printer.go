package coordinator

import (
	"bufio"
	"io"
	"sync"
	"time"

	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/metrics/event"
)

// printerQueue bounds the events that wait for a slow reader of up -o json.
const printerQueue = 4096

// printerPause is how long an event waits for others to be printed with it. Writing each event separately costs
// more than making it.
const printerPause = 20 * time.Millisecond

// printer prints events, one JSON object per line. The nodes never wait for the reader of stdout: if the queue is
// full, events are left out, and a warning gives their number. The database has all events.
type printer struct {
	queue   chan *event.Event // pointers, so that only waiting events use memory
	done    sync.WaitGroup
	skipped int // left-out events; used only by add
}

func newPrinter(out io.Writer) *printer {
	p := &printer{queue: make(chan *event.Event, printerQueue)}
	p.done.Go(func() {
		// Ignore errors: a broken pipe must not end a run of several days.
		together := bufio.NewWriterSize(out, 64<<10)
		lines := event.NewWriter(together)
		for e := range p.queue {
			time.Sleep(printerPause)
			_ = lines.Write(e)
			for range len(p.queue) {
				_ = lines.Write(<-p.queue)
			}
			_ = together.Flush()
		}
	})
	return p
}

// add queues an event without blocking. Calls must not be concurrent.
func (p *printer) add(e event.Event) {
	if p.skipped > 0 {
		warning := &event.Event{Type: event.TypeWarning, Run: e.Run, Time: event.Now(),
			Message: units.Plural(p.skipped, "event") + " dropped: the reader of stdout is too slow"}
		select {
		case p.queue <- warning:
			p.skipped = 0
		default:
		}
	}
	select {
	case p.queue <- &e:
	default:
		p.skipped++
	}
}

// close prints the queued events.
func (p *printer) close() {
	close(p.queue)
	p.done.Wait()
}
