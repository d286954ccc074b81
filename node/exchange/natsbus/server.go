// Package natsbus carries a swarm's rollouts over NATS JetStream: the broker that a coordinator embeds (Server) and
// the Exchange that its nodes dial (Bus). A run is a stream, a batch one message of it; the stream keeps the first batch
// of a (round, node) and refuses others, whoever sends them. The package imports nothing of ours but exchange.
package natsbus

import (
	"context"
	"crypto/rand"
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

	"github.com/sapo-swarm/swarm/node/exchange"
)

const (
	startTimeout = 10 * time.Second

	// A direct read answers with the message and a few headers of the server's own.
	headerRoom = 64 << 10

	// JetStream syncs its files this often. A killed process loses nothing, for the kernel has the writes; a
	// machine that loses power loses this much, and its nodes go back to their checkpoints.
	syncInterval = 10 * time.Second

	// The embedded broker serves one host's nodes; nothing of ours is stored in memory.
	memoryStoreBytes = 16 << 20
	defaultStore     = 64 << 30
)

// ServerOptions configures the embedded broker.
type ServerOptions struct {
	Dir        string // where streams are stored; one server a folder
	Listen     string // host:port, port 0 for any free one; empty is 127.0.0.1:0. Loopback only: there is no TLS
	Token      string // what clients must present; empty makes a new one
	StoreBytes int64  // bound of all streams together; 0 is 64 GiB
	Logger     *slog.Logger
}

// Server is a NATS server inside this process. Its methods are safe for concurrent use.
type Server struct {
	options natsserver.Options
	token   string
	logger  *slog.Logger
	conn    *nats.Conn // in-process; it finds the broker that is there
	js      jetstream.JetStream
	pokes   chan string // why the store should be looked at: the broker logged a trouble, or a client met one

	healing sync.Mutex // one repair at a time
	mu      sync.Mutex
	broker  *natsserver.Server
	closed  bool
	folders map[string]string // run -> where its stream lies
}

// Start starts the broker and returns when it accepts connections. What an earlier server stored in the folder is there, unless it is so
// damaged that the broker refuses it: then the store begins empty, with a warning.
func Start(options ServerOptions) (*Server, error) {
	if options.Dir == "" {
		return nil, errors.New("start the message bus: no folder to store rollouts in")
	}
	if info, err := os.Stat(options.Dir); err == nil && !info.IsDir() {
		return nil, fmt.Errorf("start the message bus: %s is not a directory", options.Dir)
	}
	host, port, err := loopback(options.Listen)
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
	if options.Logger == nil {
		options.Logger = slog.New(slog.DiscardHandler)
	}
	server := &Server{
		options: brokerOptions(options, host, port), token: options.Token, logger: options.Logger,
		pokes: make(chan string, 1), folders: map[string]string{},
	}
	if err := server.begin(); err != nil {
		server.Shutdown()
		return nil, fmt.Errorf("start the message bus on %s: %w", net.JoinHostPort(host, strconv.Itoa(max(port, 0))), err)
	}
	return server, nil
}

func brokerOptions(options ServerOptions, host string, port int) natsserver.Options {
	return natsserver.Options{
		ServerName:             "swarm",
		Host:                   host,
		Port:                   port,
		Authorization:          options.Token,
		NoSigs:                 true,
		NoSystemAccount:        true,
		MaxPayload:             exchange.MaxBatchBytes + headerRoom,
		JetStream:              true,
		StoreDir:               options.Dir,
		JetStreamMaxMemory:     memoryStoreBytes,
		JetStreamMaxStore:      options.StoreBytes,
		SyncInterval:           syncInterval,
		DisableJetStreamBanner: true,
	}
}

// begin starts the first broker, keeps its port for later ones, and opens the server's own connection.
func (s *Server) begin() error {
	if err := remove(s.options.StoreDir + damagedSuffix); err != nil { // of a process that was killed meanwhile
		return err
	}
	err := s.launch()
	if errors.Is(err, errStore) {
		s.logger.Warn("the message bus's store can't be used and begins empty", "folder", s.options.StoreDir, "reason", err)
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
	s.conn, err = nats.Connect("", nats.InProcessServer(s), nats.Token(s.token), nats.Name("coordinator"),
		nats.MaxReconnects(-1), nats.ReconnectWait(firstBackoff), nats.ReconnectJitter(0, 0), nats.ReconnectBufSize(-1))
	if err != nil {
		return err
	}
	s.js, err = jetstream.New(s.conn)
	return err
}

// errStore says that the broker doesn't start because of what is in its folder.
var errStore = errors.New("the broker refuses its store")

// launch starts a broker and waits until it is up.
func (s *Server) launch() error {
	broker, err := natsserver.NewServer(s.options.Clone())
	if err != nil {
		return err
	}
	log := &serverLog{logger: s.logger, trouble: s.poke}
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

// InProcessConn connects to the broker that is there now: nats.Connect dials it, and again after a restart.
func (s *Server) InProcessConn() (net.Conn, error) { return s.current().InProcessConn() }

// URL is where clients on this host connect, nats://127.0.0.1:port.
func (s *Server) URL() string { return s.current().ClientURL() }

// Token is the secret clients must present. It belongs into a node's assignment, not into argv or logs.
func (s *Server) Token() string { return s.token }

// CreateStream makes the stream of a run, or takes the one that is there. One that is damaged is made anew, empty, with a warning.
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

// Purge drops a run's rounds below beforeRound. Gathers of them no longer find anything.
func (s *Server) Purge(ctx context.Context, run string, beforeRound int) error {
	return purge(ctx, s.js, run, beforeRound)
}

// DeleteStream drops all rollouts of a run. A run that has none is no error.
func (s *Server) DeleteStream(ctx context.Context, run string) error {
	return deleteStream(ctx, s.js, run)
}

// Shutdown stops the broker, with what it stored flushed, and waits until it has stopped.
func (s *Server) Shutdown() {
	s.healing.Lock() // a repair comes to its end first
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

// loopback splits a listening address; port 0 becomes -1, which NATS understands as any.
func loopback(listen string) (string, int, error) {
	if listen == "" {
		listen = "127.0.0.1:0"
	}
	host, portText, err := net.SplitHostPort(listen)
	if err != nil {
		return "", 0, err
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return "", 0, fmt.Errorf("%s is not a loopback address, and the embedded bus has no TLS", listen)
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
