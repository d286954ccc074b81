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
	writeTimeout = 10 * time.Second // per message; slower clients are dropped
	watcherQueue = 256              // queued messages per watcher
	share        = 0.01             // maximum share of one core for polling the database
	longest      = 15 * time.Second // maximum pause between polls, however long a poll takes
)

// watcher is one open stream.
type watcher struct {
	queue   chan []byte // closed when the watcher is dropped
	address string      // client address without port
}

// eventMessage encodes a message of a stream: a type, an optional ID, and a document.
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

// tell queues a message for every watcher. It drops watchers whose queue is full; their clients reconnect and get the
// current state. The caller must hold mu.
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

// tellChanged sends the rows of changed runs, and the statuses of runs that were read in detail.
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
			continue // it had ended before the first watcher
		}
		if message := eventMessage("status", "", k.status); !bytes.Equal(message, k.event) {
			k.event = message
			b.tell(message)
		}
	}
}

// watch adds a watcher and returns it with its initial messages: every run, the status of running runs, and the entries
// after the last one that the client has. It returns nil if there are too many watchers, in total or from that address,
// or if the board is closed.
func (b *board) watch(ctx context.Context, address string, last int64, resumes bool) (*watcher, [][]byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	_ = b.look(ctx) // the board's state contains the error
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

// newest returns the ID of the newest known entry.
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

// close ends all streams.
func (b *board) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	for w := range b.watchers {
		b.drop(w)
	}
}

// serve polls the database while there are watchers, until ctx ends.
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
				_ = b.look(ctx) // the board's state contains the error
			}
			// If a poll takes long, as for a large swarm, polls become less frequent.
			pause = min(longest, max(b.interval, time.Duration(float64(time.Since(began))/share)))
			b.mu.Unlock()
			if !watched {
				break
			}
		}
	}
}

// stream responds with server-sent events until the client disconnects.
func (s *Server) stream(w http.ResponseWriter, r *http.Request) {
	p := readParams(r)
	id := cmp.Or(r.Header.Get("Last-Event-ID"), p.get("last_event_id")) // the page cannot set headers when it reconnects
	if err := p.done(); err != nil {
		s.refuse(w, r, explain(err))
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Accel-Buffering", "no") // prevents buffering by proxies
	if r.Method == http.MethodHead {
		return
	}
	last, err := strconv.ParseInt(id, 10, 64)
	address, _, _ := net.SplitHostPort(r.RemoteAddr)
	watcher, first := s.board.watch(r.Context(), address, last, err == nil && last >= 0)
	if watcher == nil {
		text := fmt.Sprintf("too many open pages: at most %d, and %d from %s. Try: close some of them", maxStreams, maxStreamsEach, address)
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
		return out.SetWriteDeadline(time.Time{}) // a deadline would end an idle HTTP/2 stream
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
