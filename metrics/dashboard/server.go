// Package dashboard serves a read-only web page about the runs of a database. It serves the page and charts, a JSON
// API, a stream of changes, and Prometheus metrics. Inputs are the path of a database that other processes write, and
// functions that read logs and journals from runs' folders. All numbers are documents of metrics/stats from
// metrics/query. The package computes no numbers, writes nothing, and makes no network requests.
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

// Options configure the content and access of a dashboard.
type Options struct {
	Path string // of the database; the file may not exist yet

	// Alive reports whether a run's coordinator is alive at a time in Unix seconds, as far as this host can see.
	Alive func(store.Snapshot, float64) bool

	Logs     func(context.Context, LogQuery) (Logs, error)         // nil: logs are not available
	Rollouts func(context.Context, RolloutQuery) (Rollouts, error) // nil: rollouts are not available

	Studies Studies // nil: there are no studies

	Version string
	Token   string // required from clients; empty: any client may read that addresses this server by IP address or as localhost
	Logger  *slog.Logger

	interval time.Duration // interval of polls while there are watchers, default 1 s
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
	busy    chan struct{} // slots of requests in progress
}

// Limits of concurrent work of one server.
const (
	maxRequests    = 32 // in progress; further requests wait
	maxStreams     = 48 // open streams
	maxStreamsEach = 16 // open streams per client address
	requestTimeout = 20 * time.Second
	closeTimeout   = 2 * time.Second
)

// New creates a server. It does not access the database yet.
func New(o Options) (*Server, error) {
	switch {
	case o.Path == "":
		return nil, errors.New("dashboard: a database path is needed")
	case o.Alive == nil:
		return nil, errors.New("dashboard: a function that tells which coordinators live is needed")
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

// ServeHTTP handles one request. Unless Serve is running, changes are not polled, and streams send only the current
// state.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(w, r) }

// Serve handles requests until ctx ends, then closes the listener, all streams and the database. It returns nil after
// ctx has ended, else the error that stopped it.
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
