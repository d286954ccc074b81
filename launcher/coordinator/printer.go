package coordinator

import (
	"bufio"
	"io"
	"sync"
	"time"

	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/metrics/event"
)

// printerQueue is how many events wait for a slow reader of up -o json.
const printerQueue = 4096

// printerPause is how long an event waits for others that are printed with it: to write each by itself costs more than
// to make it.
const printerPause = 20 * time.Millisecond

// printer prints events, one JSON object a line. The nodes never wait for whoever reads stdout: when the queue is full
// events are left out, and a warning says how many. The database has them all.
type printer struct {
	queue   chan *event.Event // which cost memory only while they wait
	done    sync.WaitGroup
	skipped int // by add
}

func newPrinter(out io.Writer) *printer {
	p := &printer{queue: make(chan *event.Event, printerQueue)}
	p.done.Go(func() {
		// A broken pipe is no reason to end a run of days: errors are left alone.
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

// add queues an event. It is called from one goroutine at a time and does not block.
func (p *printer) add(e event.Event) {
	if p.skipped > 0 {
		warning := &event.Event{Type: event.TypeWarning, Run: e.Run, Time: event.Now(),
			Message: units.Plural(p.skipped, "event") + " left out: stdout's reader is too slow"}
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

// close prints what is queued.
func (p *printer) close() {
	close(p.queue)
	p.done.Wait()
}
