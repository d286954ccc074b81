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
	"strconv"
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
	broker *natsserver.Server
	token  string
	conn   *nats.Conn // in-process
	js     jetstream.JetStream
}

// Start starts the broker and returns when it accepts connections. What an earlier server stored in the folder is there.
func Start(options ServerOptions) (*Server, error) {
	if options.Dir == "" {
		return nil, errors.New("start the message bus: no folder to store rollouts in")
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
	broker, err := natsserver.NewServer(&natsserver.Options{
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
	})
	if err != nil {
		return nil, fmt.Errorf("start the message bus: %w", err)
	}
	log := &serverLog{logger: options.Logger}
	broker.SetLoggerV2(log, false, false, false)
	broker.Start()
	server := &Server{broker: broker, token: options.Token}
	if err := server.connect(log); err != nil {
		server.Shutdown()
		return nil, fmt.Errorf("start the message bus on %s: %w", net.JoinHostPort(host, strconv.Itoa(max(port, 0))), err)
	}
	return server, nil
}

// connect waits until the broker is up and opens the server's own, in-process connection.
func (s *Server) connect(log *serverLog) error {
	for start := time.Now(); !s.broker.ReadyForConnections(100 * time.Millisecond); {
		if err := log.fatal(); err != nil {
			return err
		}
		if time.Since(start) > startTimeout {
			return fmt.Errorf("not ready after %v", startTimeout)
		}
	}
	var err error
	if s.conn, err = nats.Connect("", nats.InProcessServer(s.broker), nats.Token(s.token), nats.Name("coordinator")); err != nil {
		return err
	}
	s.js, err = jetstream.New(s.conn)
	return err
}

// URL is where clients on this host connect, nats://127.0.0.1:port.
func (s *Server) URL() string { return s.broker.ClientURL() }

// Token is the secret clients must present. It belongs into a node's assignment, not into argv or logs.
func (s *Server) Token() string { return s.token }

// CreateStream makes the stream of a run, or takes the one that is there.
func (s *Server) CreateStream(ctx context.Context, run string) error {
	return createStream(ctx, s.js, run)
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
	if s.conn != nil {
		s.conn.Close()
	}
	s.broker.Shutdown()
	s.broker.WaitForShutdown()
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
