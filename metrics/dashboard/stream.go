package dashboard

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/store"
)

const (
	beatInterval = 15 * time.Second
	writeTimeout = 10 * time.Second // of one message; whoever takes longer is dropped
	watcherQueue = 256              // messages that may wait for one watcher
	share        = 0.01             // of one core, at most, that looking at the database takes
	longest      = 15 * time.Second // between looks, however long one takes
)

// watcher is one open stream.
type watcher struct {
	queue   chan []byte // closed when the watcher was dropped
	address string      // whose it is, without the port
}

// eventMessage is a message of a stream: a type, an ID or none, and a document.
func eventMessage(kind, id string, document any) []byte {
	body, err := json.Marshal(document)
	if err != nil {
		return nil
	}
	text := "event: " + kind + "\n"
	if id != "" {
		text += "id: " + id + "\n"
	}
	return fmt.Appendf(nil, "%sdata: %s\n\n", text, body)
}

// tell sends a message to every watcher. One that doesn't keep up is dropped: it comes again and gets the present. It
// is called with mu held.
func (b *board) tell(message []byte) {
	for w := range b.watchers {
		select {
		case w.queue <- message:
		default:
			b.drop(w)
		}
	}
}

func (b *board) drop(w *watcher) {
	if _, there := b.watchers[w]; there {
		delete(b.watchers, w)
		close(w.queue)
	}
}

// tellChanged tells of runs whose rows have changed, and of the statuses of those that were looked at closely.
func (b *board) tellChanged(changed, fresh []*known, full bool) {
	if len(b.watchers) == 0 {
		return
	}
	if full {
		b.tell(eventMessage("runs", "", b.present(b.runs, true)))
	} else if len(changed) > 0 {
		b.tell(eventMessage("runs", "", b.present(changed, false)))
	}
	for _, k := range fresh {
		if k.totals.State != store.RunRunning && k.event == nil {
			continue // it had ended before anybody watched
		}
		if message := eventMessage("status", "", k.status); !bytes.Equal(message, k.event) {
			k.event = message
			b.tell(message)
		}
	}
}

// watch adds a watcher and returns it with what it is to be told first: every run, the status of those that go on, and
// what happened after the entry that it knows last. It is nil where there are too many, of all or of that address, or
// the board is closed.
func (b *board) watch(ctx context.Context, address string, last int64, resumes bool) (*watcher, [][]byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	_ = b.look(ctx) // the state says what is wrong
	each := 0
	for w := range b.watchers {
		if w.address == address {
			each++
		}
	}
	if len(b.watchers) >= maxStreams || each >= maxStreamsEach || b.closed {
		return nil, nil
	}
	first := [][]byte{eventMessage("runs", strconv.FormatInt(b.newest(), 10), b.present(b.runs, true))}
	if resumes {
		for _, e := range b.since(last) {
			first = append(first, eventMessage("entry", strconv.FormatInt(e.ID, 10), e))
		}
	}
	for _, k := range b.runs {
		if k.totals.State == store.RunRunning {
			k.event = eventMessage("status", "", k.status)
			first = append(first, k.event)
		}
	}
	w := &watcher{queue: make(chan []byte, watcherQueue), address: address}
	b.watchers[w] = struct{}{}
	select {
	case b.woken <- struct{}{}:
	default:
	}
	return w, first
}

// newest is the ID of the newest entry that is known.
func (b *board) newest() int64 {
	var id int64
	for _, t := range b.timelines {
		id = max(id, t.seen)
	}
	return id
}

func (b *board) leave(w *watcher) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.drop(w)
}

// close ends every stream.
func (b *board) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	for w := range b.watchers {
		b.drop(w)
	}
}

// serve looks at the database for as long as somebody watches, until ctx ends.
func (b *board) serve(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-b.woken:
		}
		for pause := b.interval; ; {
			select {
			case <-ctx.Done():
				return
			case <-time.After(pause):
			}
			b.mu.Lock()
			watched := len(b.watchers) > 0
			began := time.Now()
			if watched {
				_ = b.look(ctx) // the state says what is wrong
			}
			// A swarm so large that a look takes long is looked at less often.
			pause = min(longest, max(b.interval, time.Duration(float64(time.Since(began))/share)))
			b.mu.Unlock()
			if !watched {
				break
			}
		}
	}
}

// stream answers with server-sent events until the asker leaves.
func (s *Server) stream(w http.ResponseWriter, r *http.Request) {
	p := readParams(r)
	id := cmp.Or(r.Header.Get("Last-Event-ID"), p.get("last_event_id")) // a page that comes again by itself can set no header
	if err := p.done(); err != nil {
		s.refuse(w, r, explain(err))
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Accel-Buffering", "no") // a proxy must not keep events back
	if r.Method == http.MethodHead {
		return
	}
	last, err := strconv.ParseInt(id, 10, 64)
	address, _, _ := net.SplitHostPort(r.RemoteAddr)
	watcher, first := s.board.watch(r.Context(), address, last, err == nil && last >= 0)
	if watcher == nil {
		text := fmt.Sprintf("%d pages watch already, or %d from %s. Try: close some of them", maxStreams, maxStreamsEach, address)
		s.refuse(w, r, &problem{http.StatusServiceUnavailable, text})
		return
	}
	defer s.board.leave(watcher)
	out := http.NewResponseController(w)
	send := func(message []byte) error {
		if err := out.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
			return err
		}
		if _, err := w.Write(message); err != nil {
			return err
		}
		if err := out.Flush(); err != nil {
			return err
		}
		return out.SetWriteDeadline(time.Time{}) // it would end an idle stream of HTTP/2
	}
	if send([]byte("retry: 2000\n\n")) != nil {
		return
	}
	for _, message := range first {
		if send(message) != nil {
			return
		}
	}
	beat := time.NewTicker(beatInterval)
	defer beat.Stop()
	for {
		message := []byte(nil)
		select {
		case <-r.Context().Done():
			return
		case <-beat.C:
			message = eventMessage("beat", "", map[string]float64{"now": event.Now()})
		case next, open := <-watcher.queue:
			if !open {
				return
			}
			message = next
		}
		if send(message) != nil {
			return
		}
	}
}
