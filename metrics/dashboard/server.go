// Package dashboard serves a read-only web page about the runs of a database: its own page and charts, a JSON API, a
// stream of what changes, and Prometheus metrics. It takes the path of a database that others write, and functions for
// what lies in runs' folders (logs, journals). Its numbers are documents of metrics/stats, made by metrics/query; it
// computes none, writes nothing, and asks nothing of the network.
package dashboard

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/sapo-swarm/swarm/metrics/store"
)

// Options say what is served, and to whom.
type Options struct {
	Path string // the database's; it need not be there yet

	// Alive tells whether the coordinator of a run still lives, as far as it can be seen from here, at a time in Unix
	// seconds.
	Alive func(store.Snapshot, float64) bool

	Logs     func(context.Context, LogQuery) (Logs, error)         // nil: there are none to read
	Rollouts func(context.Context, RolloutQuery) (Rollouts, error) // nil: there are none to read

	Version string
	Token   string // whoever asks must know it; empty: everybody may who names this server as an address or localhost
	Logger  *slog.Logger

	interval time.Duration // between looks at the database while somebody watches, default 1 s
}

// Server is a dashboard. Serve runs it.
type Server struct {
	options Options
	db      *database
	board   *board
	curves  *curves
	cache   *cache
	handler http.Handler
	scrapes scrapes
	busy    chan struct{} // requests that are being answered
}

// Bounds of what one server does for others at a time.
const (
	maxRequests    = 32 // answered at a time; more wait
	maxStreams     = 48 // open at a time
	maxStreamsEach = 16 // of them, of one address
	requestTimeout = 20 * time.Second
	closeTimeout   = 2 * time.Second
)

// New makes a server. It does not touch the database yet.
func New(o Options) (*Server, error) {
	switch {
	case o.Path == "":
		return nil, errors.New("dashboard: it needs a database's path")
	case o.Alive == nil:
		return nil, errors.New("dashboard: it needs to be told which coordinators live")
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.interval <= 0 {
		o.interval = time.Second
	}
	s := &Server{options: o, db: &database{path: o.Path}, cache: newCache(), busy: make(chan struct{}, maxRequests)}
	s.board = newBoard(s.db, o)
	s.curves = newCurves()
	var err error
	s.handler, err = s.routes()
	return s, err
}

// ServeHTTP answers one request. Without Serve nobody looks for changes, and streams only tell the present.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(w, r) }

// Serve answers requests until ctx ends, then closes the listener, every stream and the database. Its error is nil
// after ctx has ended, else why it can't go on.
func (s *Server) Serve(ctx context.Context, listener net.Listener) error {
	server := &http.Server{
		Handler: s, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 60 * time.Second,
		IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 32 << 10, ConnState: newCrowd().changed,
		ErrorLog: slog.NewLogLogger(s.options.Logger.Handler(), slog.LevelDebug),
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var group sync.WaitGroup
	group.Go(func() { s.board.serve(ctx) })
	group.Go(func() {
		<-ctx.Done()
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
		defer cancel()
		s.board.close()
		if server.Shutdown(closing) != nil {
			server.Close()
		}
	})
	err := server.Serve(listener)
	stop()
	group.Wait()
	if errors.Is(err, http.ErrServerClosed) {
		err = nil
	}
	return errors.Join(err, s.db.close())
}
