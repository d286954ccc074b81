package dashboard

import (
	"container/list"
	"net"
	"net/http"
	"sync"
)

// maxConnections is how many connections are open at a time, streams and requests that are being answered aside. A page
// has a few.
const maxConnections = 256

// crowd bounds a server's connections. Whoever opens more than there may be ends those that have been quiet for
// longest: no token is asked for before a request is whole, and connections cost memory. One that is being answered
// stays.
type crowd struct {
	mu    sync.Mutex
	quiet *list.List // of net.Conn, those without a request, the oldest first
	place map[net.Conn]*list.Element
}

func newCrowd() *crowd { return &crowd{quiet: list.New(), place: map[net.Conn]*list.Element{}} }

// changed implements http.Server.ConnState.
func (c *crowd) changed(conn net.Conn, state http.ConnState) {
	if oldest := c.note(conn, state); oldest != nil {
		oldest.Close()
	}
}

// note keeps the books. It returns a connection that is to be closed, or nil.
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
