package dashboard

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// message is one message of a stream.
type message struct {
	kind, id string
	data     map[string]any
}

// subscription reads a stream.
type subscription struct {
	t        testing.TB
	messages chan message
	response *http.Response
	stop     context.CancelFunc
}

func subscribe(t testing.TB, base, query string, header ...string) *subscription {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/api/stream"+query, nil)
	require.NoError(t, err)
	for i := 0; i+1 < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	s := &subscription{t, make(chan message, 10_000), response, stop}
	t.Cleanup(func() { stop(); response.Body.Close() })
	go func() {
		defer close(s.messages)
		scanner := bufio.NewScanner(response.Body)
		scanner.Buffer(nil, 16<<20)
		var m message
		for scanner.Scan() {
			name, value, _ := strings.Cut(scanner.Text(), ": ")
			switch name {
			case "event":
				m.kind = value
			case "id":
				m.id = value
			case "data":
				_ = json.Unmarshal([]byte(value), &m.data)
			case "":
				if m.kind != "" {
					s.messages <- m
				}
				m = message{}
			}
		}
	}()
	return s
}

// until waits for a matching message.
func (s *subscription) until(what string, fits func(message) bool) message {
	s.t.Helper()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for {
		select {
		case m, open := <-s.messages:
			if !open {
				s.t.Fatalf("the stream ended before: %s", what)
			}
			if fits(m) {
				return m
			}
		case <-timer.C:
			s.t.Fatalf("never came: %s", what)
		}
	}
}

func is(kind string) func(message) bool { return func(m message) bool { return m.kind == kind } }

func TestStreamTellsThePresentThenWhatChanges(t *testing.T) {
	s := newSwarm(t)
	base := s.serve()
	sub := subscribe(t, base, "")
	require.Equal(t, "text/event-stream", sub.response.Header.Get("Content-Type"))
	first := sub.until("the present", is("runs"))
	require.Equal(t, databaseMissing, first.data["database"])
	require.Equal(t, true, first.data["full"])

	s.open()
	s.start("a-1", "a", 2, 3)
	sub.until("the new run", func(m message) bool { return m.kind == "runs" && len(m.data["runs"].([]any)) == 1 })
	s.record("a-1", event.Event{Type: event.TypeSpawn, Node: "node_0", PID: 7})
	spawn := sub.until("the spawn", is("entry"))
	require.Equal(t, "process 7 started", spawn.data["message"])
	require.Equal(t, fmt.Sprintf("%.0f", spawn.data["id"]), spawn.id)
	s.round("a-1", 2, 0)
	status := sub.until("the round", func(m message) bool { return m.kind == "status" && m.data["round"] == 1.0 })
	require.Equal(t, "running", status.data["state"])

	s.record("a-1", event.Event{Type: event.TypeRunEnded, State: store.RunDone})
	sub.until("the end", func(m message) bool { return m.kind == "status" && m.data["state"] == "done" })
	sub.until("the end's entry", func(m message) bool { return m.kind == "entry" && m.data["type"] == "run_ended" })

	again := subscribe(t, base, "", "Last-Event-ID", spawn.id)
	missed := again.until("what was missed", is("entry"))
	require.Equal(t, "run_ended", missed.data["type"], "from where it had ended")
	again = subscribe(t, base, "?last_event_id="+spawn.id)
	again.until("what was missed", is("entry"))
}

func TestStreamTellsWhenTheCoordinatorDiesAndComesBack(t *testing.T) {
	s := newSwarm(t)
	s.open()
	s.start("a-1", "a", 2, 3)
	s.round("a-1", 2, 0)
	s.wait("a-1", 2)
	sub := subscribe(t, s.serve(), "")
	sub.until("it runs", func(m message) bool { return m.kind == "status" && m.data["state"] == "running" })
	s.dead.Store(true)
	sub.until("it crashed", func(m message) bool { return m.kind == "status" && m.data["state"] == "crashed" })
	s.dead.Store(false)
	s.start("a-1", "a", 2, 3)
	sub.until("it runs again", func(m message) bool {
		return m.kind == "status" && m.data["state"] == "running" && m.data["attempts"] == 2.0
	})
}

func TestNothingIsReadOrToldWhereNothingChanges(t *testing.T) {
	b := finished(t).server.board
	w, _ := b.watch(t.Context(), "", 0, false)
	b.mu.Lock()
	defer b.mu.Unlock()
	require.NoError(t, b.look(t.Context())) // the first reader has created SQLite's own files
	looked := b.looked
	require.NoError(t, b.look(t.Context()))
	require.Equal(t, looked, b.looked)
	require.Empty(t, w.queue)
	b.looked = time.Time{}
	require.NoError(t, b.look(t.Context()))
	require.NotEqual(t, looked, b.looked, "now and then it looks all the same")
	require.Empty(t, w.queue)
}

func TestStreamsAreBounded(t *testing.T) {
	s := finished(t)
	base := s.serve()
	var subs []*subscription
	for range maxStreamsEach {
		sub := subscribe(t, base, "")
		sub.until("the present", is("runs"))
		subs = append(subs, sub)
	}
	response, err := http.Get(base + "/api/stream")
	require.NoError(t, err)
	require.Equal(t, http.StatusServiceUnavailable, response.StatusCode)
	require.Contains(t, body(t, response), "too many open pages")
	for i := range maxStreams - maxStreamsEach {
		w, _ := s.server.board.watch(t.Context(), fmt.Sprint(i/maxStreamsEach), 0, false)
		require.NotNil(t, w)
	}
	w, _ := s.server.board.watch(t.Context(), "another", 0, false)
	require.Nil(t, w)
	subs[0].stop()
	require.Eventually(t, func() bool {
		response, err := http.Get(base + "/api/runs")
		require.NoError(t, err)
		response.Body.Close()
		s.server.board.mu.Lock()
		defer s.server.board.mu.Unlock()
		return len(s.server.board.watchers) == maxStreams-1
	}, patience, 5*time.Millisecond)
}

// One address cannot use up all streams: clients from other addresses can still watch.
func TestStreamsOfOneAddressAreBounded(t *testing.T) {
	b := newBoard(&database{path: t.TempDir() + "/none"}, Options{})
	for range maxStreamsEach {
		w, _ := b.watch(t.Context(), "203.0.113.7", 0, false)
		require.NotNil(t, w)
	}
	refused, _ := b.watch(t.Context(), "203.0.113.7", 0, false)
	require.Nil(t, refused)
	other, _ := b.watch(t.Context(), "203.0.113.8", 0, false)
	require.NotNil(t, other)
	require.Less(t, maxStreamsEach, maxStreams/2)
	b.mu.Lock()
	for w := range b.watchers {
		if w.address == "203.0.113.7" {
			b.drop(w)
			break
		}
	}
	b.mu.Unlock()
	again, _ := b.watch(t.Context(), "203.0.113.7", 0, false)
	require.NotNil(t, again, "one that left makes room")
}

// A watcher that does not read must not delay others or use up memory.
func TestASlowWatcherIsDropped(t *testing.T) {
	b := newBoard(&database{path: t.TempDir() + "/none"}, Options{})
	slow, _ := b.watch(t.Context(), "", 0, false)
	quick, _ := b.watch(t.Context(), "", 0, false)
	b.mu.Lock()
	defer b.mu.Unlock()
	for range watcherQueue + 1 {
		b.tell([]byte("x"))
		<-quick.queue
	}
	require.Len(t, b.watchers, 1)
	for range watcherQueue {
		<-slow.queue
	}
	_, open := <-slow.queue
	require.False(t, open)
}

func TestServeEndsItsStreams(t *testing.T) {
	s := finished(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.server.Serve(ctx, listener) }()
	sub := subscribe(t, "http://"+listener.Addr().String(), "")
	sub.until("the present", is("runs"))
	stop()
	select {
	case err := <-done:
		require.NoError(t, err)
	case <-time.After(patience):
		t.Fatal("Serve goes on")
	}
	for range sub.messages {
	}
	require.Equal(t, http.StatusServiceUnavailable, s.get("/api/stream").Code)
}

func TestHeadOfAStreamEnds(t *testing.T) {
	s := finished(t)
	response, err := http.Head(s.serve() + "/api/stream")
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, response.StatusCode)
	require.NoError(t, response.Body.Close())
}
