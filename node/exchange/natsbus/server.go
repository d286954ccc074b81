// Package natsbus implements a swarm's transport over NATS JetStream: the broker that a coordinator embeds (Server) and
// the Exchange that its nodes dial (Bus). A run is a stream, and a batch is one message of it. The stream keeps the
// first batch of a (round, node) and refuses others, whoever sends them. Workers on other hosts connect over TLS with
// their own credentials and have no write access to the stream. They offer their batches to the coordinator's admission
// server (Server.ServeAdmission, DialUplink). Of this module the package imports only exchange, membership and internal
// packages.
package natsbus

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strconv"
	"sync"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/time/rate"

	"github.com/sapo-swarm/swarm/internal/files"
	"github.com/sapo-swarm/swarm/node/exchange"
)

const (
	startTimeout = 10 * time.Second

	// A direct read returns the message with a few headers that the server adds.
	headerRoom = 64 << 10

	// JetStream syncs its files this often if no worker may connect. A killed process loses nothing, because the kernel
	// has the writes. A power failure loses up to this much, which the nodes' journals restore. With workers, each
	// write is synced before the offer is accepted, because a worker's node shares it only once.
	syncInterval = 10 * time.Second

	// The embedded broker serves one host's nodes and stores no stream in memory.
	memoryStoreBytes = 16 << 20
	defaultStore     = 64 << 30

	// Bounds of what connections of unknown clients can cost.
	maxClients       = 16 << 10
	maxClosed        = 256  // remembered closed connections; the server's default of 10,000 takes a few kilobytes each
	maxSubscriptions = 4096 // per connection
	maxControlLine   = 4096
	maxPending       = 32 << 20 // bytes waiting for one connection; beyond it the connection is closed
	authTimeout      = 5 * time.Second
	writeDeadline    = 30 * time.Second // a client that reads nothing for this long is disconnected
)

// ServerOptions configure the embedded broker, or the external cluster.
type ServerOptions struct {
	Dir        string      // folder of the streams; one server per folder
	Listen     string      // host:port, port 0 for any free one; empty: 127.0.0.1:0. Beyond loopback only with TLS
	Token      string      // token of the coordinator's own nodes, which may do everything; empty: a new one
	StoreBytes int64       // bound of all streams together; 0: 64 GiB
	TLS        *tls.Config // with one certificate; nil: no TLS, and loopback only

	// Admit checks a worker's credentials. It returns nil or a *membership.Refusal. If Admit is nil, no worker may
	// connect.
	Admit func(worker, secret string) error

	// External lists URLs of a NATS cluster with JetStream to use instead of an embedded broker. Then Dir and Listen
	// are ignored.
	External    []string
	Credentials string // file, for the cluster; empty: none, or in the URLs
	CAFile      string // for the cluster's certificates; empty: the system's CAs
	Logger      *slog.Logger
}

// Server is a NATS server inside this process, or a connection to an external cluster. Its methods are safe for
// concurrent use.
type Server struct {
	options natsserver.Options
	cluster *cluster // external, instead of a broker
	token   string
	pin     string // fingerprint of the broker's certificate; empty: no TLS
	gate    *gate
	admit   func(worker, secret string) error
	logger  *slog.Logger
	conn    *nats.Conn // in-process; reconnects to a restarted broker
	js      jetstream.JetStream
	pokes   chan string // reasons to check the store: the broker logged an error, or a client reported one

	healing sync.Mutex // one repair at a time
	mu      sync.Mutex
	broker  *natsserver.Server
	closed  bool
	folders map[string]string // run -> folder of its stream
}

// Start starts the broker and returns when it accepts connections. It keeps the streams in the folder. If they are so
// damaged that the broker refuses them, it starts with an empty store and logs a warning. With External it connects to
// the cluster instead.
func Start(options ServerOptions) (*Server, error) {
	if options.Logger == nil {
		options.Logger = slog.New(slog.DiscardHandler)
	}
	if len(options.External) > 0 {
		return connectCluster(options)
	}
	if options.Dir == "" {
		return nil, errors.New("start the message bus: no folder for rollouts")
	}
	if info, err := os.Stat(options.Dir); err == nil && !info.IsDir() {
		return nil, fmt.Errorf("start the message bus: %s is not a directory", options.Dir)
	}
	host, port, err := listenOn(options.Listen, options.TLS != nil)
	if err != nil {
		return nil, fmt.Errorf("start the message bus: %w", err)
	}
	if options.Token == "" {
		if options.Token, err = newToken(); err != nil {
			return nil, fmt.Errorf("start the message bus: %w", err)
		}
	}
	if options.StoreBytes == 0 {
		options.StoreBytes = defaultStore
	}
	server := &Server{
		options: brokerOptions(options, host, port), token: options.Token, admit: options.Admit, logger: options.Logger,
		pokes: make(chan string, 1), folders: map[string]string{},
	}
	server.gate = &gate{token: options.Token, admit: options.Admit, alive: server.connected, workers: map[string][]uint64{}}
	server.options.CustomClientAuthentication = server.gate
	if options.TLS != nil {
		if err := server.secure(options.TLS); err != nil {
			return nil, fmt.Errorf("start the message bus: %w", err)
		}
	}
	if err := files.MakeFolder(options.Dir, 0o750); err != nil { // like the broker, but with a sync of the folder's name
		return nil, fmt.Errorf("start the message bus: %w", err)
	}
	if err := server.begin(); err != nil {
		server.Shutdown()
		where := net.JoinHostPort(host, strconv.Itoa(max(port, 0)))
		if options.TLS != nil {
			return nil, fmt.Errorf("listen on %s: %w. Try: an address of this host and a free port (--listen :PORT)", where, err)
		}
		return nil, fmt.Errorf("start the message bus on %s: %w", where, err)
	}
	return server, nil
}

func brokerOptions(options ServerOptions, host string, port int) natsserver.Options {
	return natsserver.Options{
		ServerName:             "swarm",
		Host:                   host,
		Port:                   port,
		NoSigs:                 true,
		NoSystemAccount:        true,
		MaxConn:                maxClients,
		MaxClosedClients:       maxClosed,
		MaxSubs:                maxSubscriptions,
		MaxControlLine:         maxControlLine,
		MaxPayload:             exchange.MaxBatchBytes + headerRoom,
		MaxPending:             maxPending,
		AuthTimeout:            authTimeout.Seconds(),
		JetStream:              true,
		StoreDir:               options.Dir,
		JetStreamMaxMemory:     memoryStoreBytes,
		JetStreamMaxStore:      options.StoreBytes,
		SyncInterval:           syncInterval,
		SyncAlways:             options.Admit != nil,
		DisableJetStreamBanner: true,
	}
}

// secure gives the broker its certificate. The handshake comes before anything else, so that an unauthenticated client
// learns nothing.
func (s *Server) secure(config *tls.Config) error {
	if len(config.Certificates) != 1 || len(config.Certificates[0].Certificate) == 0 {
		return errors.New("TLS with one certificate is needed")
	}
	leaf, err := x509.ParseCertificate(config.Certificates[0].Certificate[0])
	if err != nil {
		return fmt.Errorf("the certificate can't be read: %w", err)
	}
	config = config.Clone()
	config.MinVersion = tls.VersionTLS13
	s.pin = Fingerprint(leaf)
	s.options.TLSConfig = config
	s.options.TLSTimeout = authTimeout.Seconds()
	s.options.TLSHandshakeFirst = true
	s.options.PingInterval = farPing * 4
	s.options.MaxPingsOut = farPings
	s.options.WriteDeadline = writeDeadline
	return nil
}

// begin starts the first broker, records its port for later ones, and opens the server's own connection.
func (s *Server) begin() error {
	if err := remove(s.options.StoreDir + damagedSuffix); err != nil { // left by a process that was killed
		return err
	}
	err := s.launch()
	if errors.Is(err, errStore) {
		s.logger.Warn("the message bus's store is not usable and starts empty", "folder", s.options.StoreDir, "reason", err)
		if err := discard(s.options.StoreDir); err != nil {
			return err
		}
		err = s.launch()
	}
	if err != nil {
		return err
	}
	if address, ok := s.current().Addr().(*net.TCPAddr); ok {
		s.options.Port = address.Port
	}
	options := []nats.Option{nats.InProcessServer(s), nats.Token(s.token), nats.Name("coordinator"),
		nats.MaxReconnects(-1), nats.ReconnectWait(firstBackoff), nats.ReconnectJitter(0, 0), nats.ReconnectBufSize(-1)}
	s.conn, err = nats.Connect("", options...)
	if err != nil {
		return err
	}
	s.js, err = jetstream.New(s.conn)
	return err
}

// errStore reports that the broker doesn't start because of its folder's content.
var errStore = errors.New("the broker rejects its store")

// launch starts a broker and waits until it is ready.
func (s *Server) launch() error {
	broker, err := natsserver.NewServer(s.options.Clone())
	if err != nil {
		return err
	}
	log := &serverLog{
		logger: s.logger, trouble: func() { s.poke("the broker reported an error") },
		errors: rate.Sometimes{First: 10, Interval: time.Second},
	}
	broker.SetLoggerV2(log, false, false, false)
	broker.Start()
	for start := time.Now(); !broker.ReadyForConnections(100 * time.Millisecond); {
		if err = log.fatal(); err == nil && time.Since(start) > startTimeout {
			err = fmt.Errorf("not ready after %v", startTimeout)
		}
		if err != nil {
			broker.Shutdown()
			broker.WaitForShutdown()
			return err
		}
	}
	s.mu.Lock()
	s.broker = broker
	s.mu.Unlock()
	return nil
}

func (s *Server) current() *natsserver.Server {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.broker
}

// InProcessConn connects to the current broker. nats.Connect calls it, also after the broker restarts.
func (s *Server) InProcessConn() (net.Conn, error) { return s.current().InProcessConn() }

// Addr returns the address on which the broker listens, nil for an external cluster.
func (s *Server) Addr() net.Addr {
	if s.cluster != nil {
		return nil
	}
	return s.current().Addr()
}

// URL returns the address for clients on this host: nats://127.0.0.1:port, with TLS
// tls://127.0.0.1:port?fp=FINGERPRINT, or the external cluster's address.
func (s *Server) URL() string {
	if s.cluster != nil {
		return s.cluster.url
	}
	host := s.options.Host
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	where := net.JoinHostPort(host, strconv.Itoa(s.options.Port))
	if s.pin == "" {
		return schemeNATS + "://" + where
	}
	return schemeTLS + "://" + where + "?fp=" + s.pin
}

// Token returns the secret of the coordinator's own nodes, empty for an external cluster. Pass it in a node's
// assignment, never in argv or logs.
func (s *Server) Token() string { return s.token }

// Disconnect closes the connections of a worker that was revoked or banned. Admit keeps the worker from coming back.
func (s *Server) Disconnect(worker string) {
	if s.cluster != nil {
		return
	}
	broker := s.current()
	for _, id := range s.gate.forget(token(worker)) {
		_ = broker.DisconnectClientByID(id) // fails if the connection is gone
	}
}

func (s *Server) connected(id uint64) bool { return s.current().GetClient(id) != nil }

// CreateStream creates or opens the stream of a run. It replaces a damaged stream by an empty one and logs a warning.
func (s *Server) CreateStream(ctx context.Context, run string) error {
	subjects, err := newSubjects(run)
	if err != nil {
		return err
	}
	s.healing.Lock()
	defer s.healing.Unlock()
	err = s.create(ctx, run, subjects)
	if err == nil || ctx.Err() != nil {
		return err
	}
	return s.heal(ctx, run, subjects, err)
}

// Purge drops a run's rounds below beforeRound. A later Gather doesn't find them.
func (s *Server) Purge(ctx context.Context, run string, beforeRound int) error {
	return purge(ctx, s.js, run, beforeRound)
}

// DeleteStream drops all rollouts of a run. It is no error if there are none.
func (s *Server) DeleteStream(ctx context.Context, run string) error {
	return deleteStream(ctx, s.js, run)
}

// Shutdown flushes the stores, stops the broker and waits for its end.
func (s *Server) Shutdown() {
	s.healing.Lock() // wait for a repair in progress
	defer s.healing.Unlock()
	s.mu.Lock()
	broker := s.broker
	s.closed = true
	s.mu.Unlock()
	if s.conn != nil {
		s.conn.Close()
	}
	if broker != nil {
		broker.Shutdown()
		broker.WaitForShutdown()
	}
}

// listenOn splits a listening address. Port 0 becomes -1, NATS's value for any free port.
func listenOn(listen string, secure bool) (string, int, error) {
	if listen == "" {
		listen = "127.0.0.1:0"
	}
	host, portText, err := net.SplitHostPort(listen)
	if err != nil {
		return "", 0, err
	}
	if ip := net.ParseIP(host); !secure && host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return "", 0, fmt.Errorf("%s is not a loopback address, but the message bus has no TLS", listen)
	}
	if host == "" {
		host = "0.0.0.0"
	}
	port, err := strconv.ParseUint(portText, 10, 16)
	if err != nil {
		return "", 0, fmt.Errorf("listen on %s: bad port %q", listen, portText)
	}
	if port == 0 {
		return host, natsserver.RANDOM_PORT, nil
	}
	return host, int(port), nil
}

// newToken returns 256 random bits in hexadecimal.
func newToken() (string, error) {
	secret := make([]byte, 32)
	if _, err := rand.Read(secret); err != nil {
		return "", err
	}
	return hex.EncodeToString(secret), nil
}
