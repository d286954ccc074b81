package dashboard

import (
	"container/list"
	"net"
	"net/http"
	"sync"
)

// maxConnections bounds the open connections, not counting streams and requests in progress. A page uses a few.
const maxConnections = 256

// crowd bounds a server's connections. A new connection above the limit closes the one that has been idle the longest.
// This protects memory, because the server cannot check a token before a request is complete. It never closes a
// connection with a request in progress.
type crowd struct {
	mu    sync.Mutex
	quiet *list.List // of net.Conn, connections without a request, oldest first
	place map[net.Conn]*list.Element
}

func newCrowd() *crowd { return &crowd{quiet: list.New(), place: map[net.Conn]*list.Element{}} }

// changed implements http.Server.ConnState.
func (c *crowd) changed(conn net.Conn, state http.ConnState) {
	if oldest := c.note(conn, state); oldest != nil {
		oldest.Close()
	}
}

// note records a connection's state. It returns a connection to close, or nil.
func (c *crowd) note(conn net.Conn, state http.ConnState) net.Conn {
	c.mu.Lock()
	defer c.mu.Unlock()
	if at := c.place[conn]; at != nil {
		c.quiet.Remove(at)
		delete(c.place, conn)
	}
	if state != http.StateNew && state != http.StateIdle {
		return nil
	}
	c.place[conn] = c.quiet.PushBack(conn)
	if c.quiet.Len() <= maxConnections {
		return nil
	}
	oldest := c.quiet.Remove(c.quiet.Front()).(net.Conn)
	delete(c.place, oldest)
	return oldest
}
