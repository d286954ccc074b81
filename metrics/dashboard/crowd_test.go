package dashboard

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A client that opens many connections closes its own idle ones. Watching pages and new clients are not affected, and
// the cost of connections is bounded.
func TestConnectionsAreBounded(t *testing.T) {
	s := finished(t)
	base := s.serve()
	watching := subscribe(t, base, "")
	watching.until("the present", is("runs"))
	address := strings.TrimPrefix(base, "http://")
	const more = 50
	var conns []net.Conn
	for range maxConnections + more {
		conn, err := net.Dial("tcp", address)
		require.NoError(t, err)
		t.Cleanup(func() { conn.Close() })
		require.NoError(t, conn.SetDeadline(time.Now().Add(patience)))
		_, err = io.WriteString(conn, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
		require.NoError(t, err)
		response, err := http.ReadResponse(bufio.NewReader(conn), nil)
		require.NoError(t, err)
		_, err = io.Copy(io.Discard, response.Body)
		require.NoError(t, err)
		conns = append(conns, conn)
	}
	closed := map[int]bool{}
	require.Eventually(t, func() bool { // the order is not exact: the server records the end of a response later
		for i, conn := range conns[:more] {
			require.NoError(t, conn.SetReadDeadline(time.Now().Add(time.Millisecond)))
			_, err := conn.Read(make([]byte, 1))
			if !errors.Is(err, os.ErrDeadlineExceeded) {
				closed[i] = true
			}
		}
		return len(closed) >= more/2
	}, patience, 20*time.Millisecond, "the oldest are still open")
	response, err := http.Get(base + "/api/runs")
	require.NoError(t, err)
	response.Body.Close()
	require.Equal(t, http.StatusOK, response.StatusCode)
	s.server.board.mu.Lock()
	defer s.server.board.mu.Unlock()
	require.Len(t, s.server.board.watchers, 1, "a stream stays")
}
