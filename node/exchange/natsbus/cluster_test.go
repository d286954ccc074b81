package natsbus

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	natsserver "github.com/nats-io/nats-server/v2/server"

	"github.com/sapo-swarm/swarm/node/exchange"
	"github.com/sapo-swarm/swarm/node/exchange/exchangetest"
)

// natsServer starts a stock NATS server from a configuration file.
func natsServer(t testing.TB, config string) *natsserver.Server {
	t.Helper()
	path := filepath.Join(t.TempDir(), "nats.conf")
	if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	options, err := natsserver.ProcessConfigFile(path)
	if err != nil {
		t.Fatal(err)
	}
	options.NoSigs, options.NoLog = true, true
	broker, err := natsserver.NewServer(options)
	if err != nil {
		t.Fatal(err)
	}
	broker.Start()
	t.Cleanup(func() { broker.Shutdown(); broker.WaitForShutdown() })
	if !broker.ReadyForConnections(soon) {
		t.Fatal("the server doesn't start")
	}
	return broker
}

// hubConfig returns the configuration of an external server. It has a user for the coordinator and one for a worker,
// with the permissions in cluster's comment.
func hubConfig(t testing.TB, more string) string {
	return fmt.Sprintf(`
		listen: "127.0.0.1:-1"
		max_payload: 9MB
		jetstream { store_dir: %q, max_file_store: 500GB }
		authorization { users [
			{ user: coordinator, password: c, permissions { publish: ["$JS.API.>", "swarm.>", "_INBOX.>", "_INBOX_w.>", "_INBOX_e.>"], subscribe: ["swarm.>", "_INBOX.>"] } }
			{ user: w, password: w, permissions { publish: ["swarm.w.worker.>", "swarm.*.want.*.*"], subscribe: ["swarm.*.shared.>", "_INBOX_w.worker.>"] } }
			{ user: leaf, password: l, permissions { publish: ["swarm.w.worker.>", "swarm.*.want.*.*"], subscribe: ["swarm.*.shared.>", "_INBOX_w.worker.>"] } }
		] }
		%s`, t.TempDir(), more)
}

func startExternal(t testing.TB, o *office, urls ...string) *Server {
	t.Helper()
	o.server = startServer(t, ServerOptions{External: urls, Admit: o.admit})
	return o.server
}

// as returns a server's address with a user.
func as(broker *natsserver.Server, user string) string {
	return "nats://" + user + "@" + broker.Addr().String()
}

// The suite runs on an external cluster, for the coordinator's own nodes and for a worker's nodes with a worker's
// permissions only.
func TestConformanceOnExternalServer(t *testing.T) {
	hub := natsServer(t, hubConfig(t, ""))
	o := newOffice(t, "")
	server := startExternal(t, o, as(hub, "coordinator:c"))
	if server.Addr() != nil || server.Token() != "" {
		t.Errorf("an external server has address %v and token %q", server.Addr(), server.Token())
	}
	serveAdmission(t, server, o)
	for who, url := range map[string]string{"Local": server.URL(), "Worker": as(hub, "w:w")} {
		t.Run(who, func(t *testing.T) {
			exchangetest.Run(t, func(t *testing.T) exchangetest.Swarm { return o.swarm(t, url, who == "Worker") })
		})
	}
}

// A worker's nodes use a leaf node: a server near them, without JetStream, that forwards their requests to the hub.
func TestConformanceOverLeaf(t *testing.T) {
	hub := natsServer(t, hubConfig(t, `leafnodes { listen: "127.0.0.1:-1" }`))
	info, err := hub.Varz(nil)
	if err != nil {
		t.Fatal(err)
	}
	leaf := natsServer(t, fmt.Sprintf(`
		listen: "127.0.0.1:-1"
		max_payload: 9MB
		leafnodes { remotes [ { url: "nats-leaf://leaf:l@%s" } ] }`, net.JoinHostPort("127.0.0.1", fmt.Sprint(info.LeafNode.Port))))
	await(t, "the leaf's connection", func() bool { return leaf.NumLeafNodes() == 1 && hub.NumLeafNodes() == 1 })
	o := newOffice(t, "")
	serveAdmission(t, startExternal(t, o, as(hub, "coordinator:c")), o)
	exchangetest.Run(t, func(t *testing.T) exchangetest.Swarm { return o.swarm(t, "nats://"+leaf.Addr().String(), true) })
}

// swarm creates a run on the office's server. Its nodes dial url.
func (o *office) swarm(t *testing.T, url string, workers bool) *remoteSwarm {
	createRun(t, o.server, t.Name())
	o.mu.Lock()
	o.run = t.Name()
	o.mu.Unlock()
	return &remoteSwarm{o.server, t.Name(), url, workers}
}

type remoteSwarm struct {
	server  *Server
	run     string
	url     string
	workers bool
}

func (s *remoteSwarm) Join(t *testing.T, node string) exchange.Exchange {
	if s.workers {
		return workerBus(t, s.url, s.run, "worker", node)
	}
	b, err := Dial(t.Context(), Options{URL: s.url, Run: s.run, Node: node})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	return b
}

func (s *remoteSwarm) Plant(t *testing.T, round int, node string, data []byte) {
	subjects, err := newSubjects(s.run)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.server.js.Publish(t.Context(), subjects.rollouts(round, node), data); err != nil {
		t.Fatal(err)
	}
}

// If the stream on the cluster is deleted, it is created again, and its batches are restored from the journals.
func TestExternalStreamIsHealed(t *testing.T) {
	hub := natsServer(t, hubConfig(t, ""))
	o := newOffice(t, "run")
	server := startExternal(t, o, as(hub, "coordinator:c"))
	createRun(t, server, "run")
	stored := &journals{}
	tend(t, server, "run", stored, "a")
	swarm := &remoteSwarm{server, "run", server.URL(), false}
	a := swarm.Join(t, "a").(*Bus)
	publish(t, a, batch("a", 0, "before"))
	if err := server.DeleteStream(t.Context(), "run"); err != nil {
		t.Fatal(err)
	}
	publish(t, a, batch("a", 1, "after"))
	if got := marks(t, a, 1, "a")[0]; got != "after" {
		t.Errorf("found %q", got)
	}
}

func TestExternalRefuses(t *testing.T) {
	without := natsServer(t, `listen: "127.0.0.1:-1"`)
	for url, want := range map[string]string{
		"http://127.0.0.1:1":                                 "does not begin with",
		"nats://" + without.Addr().String():                  "Try: jetstream",
		as(natsServer(t, hubConfig(t, "")), "coordinator:x"): "rejects these credentials. Try: --nats-creds",
	} {
		_, err := Start(ServerOptions{External: []string{url}})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "coordinator:x") {
			t.Errorf("%s: %v, want %q", url, err, want)
		}
	}
}
