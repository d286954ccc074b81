package natsbus

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/sapo-swarm/swarm/node/exchange"
	"github.com/sapo-swarm/swarm/node/exchange/exchangetest"
)

func TestConformance(t *testing.T) {
	server := startServer(t, ServerOptions{Dir: t.TempDir()})
	exchangetest.Run(t, func(t *testing.T) exchangetest.Swarm {
		createRun(t, server, t.Name())
		return &natsSwarm{server: server, run: t.Name()}
	})
}

// Tend, with empty journals, does not change the exchange's contract.
func TestConformanceTended(t *testing.T) {
	server := startServer(t, ServerOptions{Dir: t.TempDir()})
	exchangetest.Run(t, func(t *testing.T) exchangetest.Swarm {
		createRun(t, server, t.Name())
		tend(t, server, t.Name(), &journals{}, "a", "b", "c", "reader", "garbage", "good")
		return &natsSwarm{server: server, run: t.Name()}
	})
}

// natsSwarm is one run on a server that several tests share.
type natsSwarm struct {
	server *Server
	run    string
}

func (s *natsSwarm) Join(t *testing.T, node string) exchange.Exchange {
	return join(t, s.server, s.run, node)
}

func (s *natsSwarm) Plant(t *testing.T, round int, node string, data []byte) {
	plant(t, s.server, s.run, round, node, data)
}

func startServer(t testing.TB, options ServerOptions) *Server {
	t.Helper()
	server, err := Start(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Shutdown)
	return server
}

func createRun(t testing.TB, server *Server, run string) {
	t.Helper()
	if err := server.CreateStream(t.Context(), run); err != nil {
		t.Fatal(err)
	}
}

func join(t testing.TB, server *Server, run, node string) *Bus {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	bus, err := Dial(ctx, Options{URL: server.URL(), Token: server.Token(), Run: run, Node: node})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = bus.Close() })
	return bus
}

// plant publishes as a foreign client that has the token.
func plant(t testing.TB, server *Server, run string, round int, node string, data []byte) {
	t.Helper()
	if err := publishUnchecked(t, server, run, round, node, data); err != nil {
		t.Fatal(err)
	}
}

func publishUnchecked(t testing.TB, server *Server, run string, round int, node string, data []byte) error {
	t.Helper()
	where, err := parseAddress(server.URL())
	if err != nil {
		return err
	}
	options, err := where.security("", "")
	if err != nil {
		return err
	}
	conn, err := nats.Connect(where.servers(), append(options, nats.Token(server.Token()))...)
	if err != nil {
		return err
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		return err
	}
	s, err := newSubjects(run)
	if err != nil {
		return err
	}
	_, err = js.Publish(t.Context(), s.rollouts(round, node), data)
	return err
}
