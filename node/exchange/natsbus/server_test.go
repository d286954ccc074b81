package natsbus

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"pgregory.net/rapid"

	"github.com/sapo-swarm/swarm/node/exchange"
)

const soon = 2 * time.Minute

// promptly bounds the time in which the server must act, or report why it can't.
const promptly = 20 * time.Second

// batch returns a batch. mark distinguishes it from others.
func batch(node string, round int, mark string) exchange.Batch {
	return exchange.Batch{Version: exchange.Version, Node: node, Round: round, Rollouts: []exchange.Rollout{
		{Question: mark, Metadata: []byte(`{}`), Completions: []exchange.Completion{{Text: "<answer>1</answer>"}}},
	}}
}

func publish(t testing.TB, bus *Bus, b exchange.Batch) {
	t.Helper()
	if err := bus.Publish(t.Context(), b); err != nil {
		t.Fatal(err)
	}
}

// marks gathers without waiting and returns the marks, "" for a peer that hasn't shared.
func marks(t testing.TB, bus *Bus, round int, peers ...string) []string {
	t.Helper()
	got, err := bus.Gather(t.Context(), round, peers, exchange.Barrier{})
	if err != nil {
		t.Fatal(err)
	}
	found := make([]string, len(peers))
	for i, received := range got {
		if received != nil && len(received.Rollouts) > 0 {
			found[i] = received.Rollouts[0].Question
		}
	}
	return found
}

// TestRestart restarts the server on its port while nodes wait for each other.
func TestRestart(t *testing.T) {
	dir := t.TempDir()
	first := startServer(t, ServerOptions{Dir: dir})
	createRun(t, first, "run")
	a, b, reader := join(t, first, "run", "a"), join(t, first, "run", "b"), join(t, first, "run", "reader")
	publish(t, a, batch("a", 0, "before"))

	type result struct {
		got []*exchange.Received
		err error
	}
	gathered := make(chan result, 1)
	published := make(chan error, 1)
	go func() {
		got, err := reader.Gather(t.Context(), 0, []string{"a", "b"}, exchange.Barrier{Deadline: soon, Limit: soon})
		gathered <- result{got, err}
	}()
	first.Shutdown()
	go func() { published <- b.Publish(t.Context(), batch("b", 0, "meanwhile")) }()
	second := startServer(t, ServerOptions{Dir: dir, Listen: strings.TrimPrefix(first.URL(), "nats://"), Token: first.Token()})
	createRun(t, second, "run")

	if err := <-published; err != nil {
		t.Fatalf("publish over the restart: %v", err)
	}
	r := <-gathered
	if r.err != nil {
		t.Fatalf("gather over the restart: %v", r.err)
	}
	if r.got[0].Rollouts[0].Question != "before" || r.got[1].Rollouts[0].Question != "meanwhile" {
		t.Errorf("got %+v", r.got)
	}
}

// TestKill starts a server on a copy of another server's files, taken when Publish returns, as after SIGKILL.
func TestKill(t *testing.T) {
	dir, copied := t.TempDir(), t.TempDir()
	first := startServer(t, ServerOptions{Dir: dir})
	createRun(t, first, "run")
	a := join(t, first, "run", "a")
	publish(t, a, batch("a", 0, "zero"))
	publish(t, a, batch("a", 1, "one"))
	if err := os.CopyFS(filepath.Join(copied, "store"), os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	second := startServer(t, ServerOptions{Dir: filepath.Join(copied, "store")})
	createRun(t, second, "run")
	reader := join(t, second, "run", "reader")
	if zero, one := marks(t, reader, 0, "a")[0], marks(t, reader, 1, "a")[0]; zero != "zero" || one != "one" {
		t.Errorf("found %q and %q", zero, one)
	}
}

func TestWrongToken(t *testing.T) {
	server := startServer(t, ServerOptions{Dir: t.TempDir()})
	createRun(t, server, "run")
	for _, token := range []string{"", "wrong"} {
		start := time.Now()
		_, err := Dial(t.Context(), Options{URL: server.URL(), Token: token, Run: "run", Node: "a"})
		if err == nil || !strings.Contains(err.Error(), "wrong token") || strings.Contains(err.Error(), "\n") {
			t.Errorf("token %q: %v", token, err)
		}
		if waited := time.Since(start); waited > promptly {
			t.Errorf("token %q: refused after %v", token, waited)
		}
	}
}

// TestTokenChanged restarts the server with another token: nodes must fail instead of waiting forever.
func TestTokenChanged(t *testing.T) {
	dir := t.TempDir()
	first := startServer(t, ServerOptions{Dir: dir})
	createRun(t, first, "run")
	reader := join(t, first, "run", "reader")
	failed := make(chan error, 1)
	go func() {
		_, err := reader.Gather(t.Context(), 0, []string{"dead"}, exchange.Barrier{Deadline: time.Hour, Limit: time.Hour})
		failed <- err
	}()
	first.Shutdown()
	startServer(t, ServerOptions{Dir: dir, Listen: strings.TrimPrefix(first.URL(), "nats://")})
	select {
	case err := <-failed:
		if !errors.Is(err, nats.ErrAuthorization) {
			t.Errorf("gather: %v", err)
		}
	case <-time.After(soon):
		t.Fatal("gather still waits")
	}
	if err := reader.Publish(t.Context(), batch("reader", 0, "")); err == nil {
		t.Error("publish: no error")
	}
}

func TestDialWithoutRun(t *testing.T) {
	server := startServer(t, ServerOptions{Dir: t.TempDir()})
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, err := Dial(ctx, Options{URL: server.URL(), Token: server.Token(), Run: "nothing", Node: "a"})
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "stream not found") {
		t.Errorf("no stream: %v", err)
	}
	for _, o := range []Options{{Node: "a"}, {Run: "run"}, {Run: strings.Repeat("x", 65), Node: "a"}} {
		o.URL, o.Token = server.URL(), server.Token()
		if _, err := Dial(ctx, o); err == nil || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("run %q, node %q: %v", o.Run, o.Node, err)
		}
	}
}

// TestStrangerCannotReplace publishes to a node's subject without requiring that it be free.
func TestStrangerCannotReplace(t *testing.T) {
	server := startServer(t, ServerOptions{Dir: t.TempDir()})
	createRun(t, server, "run")
	a, reader := join(t, server, "run", "a"), join(t, server, "run", "reader")
	publish(t, a, batch("a", 0, "original"))
	if err := publishUnchecked(t, server, "run", 0, "a", []byte("{}")); err == nil {
		t.Error("the stranger's batch was taken")
	}
	if got := marks(t, reader, 0, "a")[0]; got != "original" {
		t.Errorf("found %q", got)
	}
	// An announcement without a stored batch changes nothing.
	if err := reader.conn.Publish(reader.subjects.shared(1, "a"), nil); err != nil {
		t.Fatal(err)
	}
	if got := marks(t, reader, 1, "a")[0]; got != "" {
		t.Errorf("found %q", got)
	}
}

func TestRunsAreApart(t *testing.T) {
	server := startServer(t, ServerOptions{Dir: t.TempDir()})
	createRun(t, server, "one")
	createRun(t, server, "two")
	publish(t, join(t, server, "one", "a"), batch("a", 0, "one"))
	two := join(t, server, "two", "a")
	if got := marks(t, two, 0, "a")[0]; got != "" {
		t.Errorf("the other run's batch: %q", got)
	}
	publish(t, two, batch("a", 0, "two"))
	if err := server.DeleteStream(t.Context(), "one"); err != nil {
		t.Fatal(err)
	}
	if err := server.DeleteStream(t.Context(), "one"); err != nil {
		t.Errorf("delete again: %v", err)
	}
	if got := marks(t, two, 0, "a")[0]; got != "two" {
		t.Errorf("found %q", got)
	}
}

func TestPurge(t *testing.T) {
	server := startServer(t, ServerOptions{Dir: t.TempDir()})
	createRun(t, server, "run")
	a, b := join(t, server, "run", "a"), join(t, server, "run", "b")
	for round := range 12 {
		publish(t, a, batch("a", round, "a"))
		publish(t, b, batch("b", round, "b"))
	}
	plant(t, server, "run", -1, "a", []byte("{}"))
	if err := server.Purge(t.Context(), "run", 10); err != nil {
		t.Fatal(err)
	}
	for round := range 12 {
		want := ""
		if round >= 10 {
			want = "ab"
		}
		if got := strings.Join(marks(t, a, round, "a", "b"), ""); got != want {
			t.Errorf("round %d: found %q, want %q", round, got, want)
		}
	}
	stream, err := server.js.Stream(t.Context(), a.subjects.stream)
	if err != nil {
		t.Fatal(err)
	}
	info, err := stream.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if info.State.Msgs != 4 {
		t.Errorf("%d batches left, want 4", info.State.Msgs)
	}
	if err := server.Purge(t.Context(), "unknown", 1); err == nil {
		t.Error("unknown run: no error")
	}
}

func TestFullStore(t *testing.T) {
	server := startServer(t, ServerOptions{Dir: t.TempDir()})
	createRun(t, server, "run")
	a := join(t, server, "run", "a")
	small := streamConfig(a.subjects)
	small.MaxBytes = 4 << 10
	if _, err := server.js.UpdateStream(t.Context(), small); err != nil {
		t.Fatal(err)
	}
	publish(t, a, batch("a", 0, "kept"))
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	err := a.Publish(ctx, batch("a", 1, strings.Repeat("x", 8<<10)))
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "maximum bytes") {
		t.Errorf("full: %v", err)
	}
	if got := marks(t, a, 0, "a")[0]; got != "kept" {
		t.Errorf("found %q", got)
	}
}

// TestForeignServer uses a stock NATS server, with its default limit of 1 MB per message.
func TestForeignServer(t *testing.T) {
	broker, err := natsserver.NewServer(&natsserver.Options{
		Host: "127.0.0.1", Port: natsserver.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	broker.Start()
	t.Cleanup(func() { broker.Shutdown(); broker.WaitForShutdown() })
	if !broker.ReadyForConnections(soon) {
		t.Fatal("the server doesn't start")
	}
	conn, err := nats.Connect(broker.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	if err := createStream(t.Context(), js, "run", 1); err != nil {
		t.Fatal(err)
	}
	a, err := Dial(t.Context(), Options{URL: broker.ClientURL(), Run: "run", Node: "a"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = a.Close() }()
	publish(t, a, batch("a", 0, "small"))
	large := batch("a", 1, "")
	for range 20 {
		large.Rollouts = append(large.Rollouts, exchange.Rollout{
			Question: strings.Repeat("x", exchange.MaxQuestionBytes), Metadata: []byte(`{}`),
		})
	}
	if err := a.Publish(t.Context(), large); err == nil || !strings.Contains(err.Error(), "max_payload") {
		t.Errorf("large: %v", err)
	}
}

func TestStartRefuses(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ dir, listen, want string }{
		{"", "", "no folder"},
		{t.TempDir(), "0.0.0.0:0", "not a loopback address"},
		{t.TempDir(), ":4222", "not a loopback address"},
		{t.TempDir(), "127.0.0.1:x", "bad port"},
		{t.TempDir(), "127.0.0.1", "missing port"},
		{t.TempDir(), taken.Addr().String(), "address already in use"},
		{file, "", "not a directory"},
	} {
		server, err := Start(ServerOptions{Dir: test.dir, Listen: test.listen})
		if err == nil {
			server.Shutdown()
		}
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("dir %q, listen %q: %v, want %q", test.dir, test.listen, err, test.want)
		}
	}
}

func TestServerIsQuiet(t *testing.T) {
	var log bytes.Buffer
	server := startServer(t, ServerOptions{Dir: t.TempDir(), Logger: slog.New(slog.NewTextHandler(&log, nil))})
	createRun(t, server, "run")
	publish(t, join(t, server, "run", "a"), batch("a", 0, ""))
	server.Shutdown()
	if log.Len() > 0 {
		t.Errorf("an ordinary run logs:\n%s", log.String())
	}
	if len(server.Token()) != 64 {
		t.Errorf("a token of %d digits, want 256 bits", len(server.Token()))
	}
}

func TestToken(t *testing.T) {
	for name, want := range map[string]string{"node_0": "node_0", "A-9": "A-9", "a.b": "a=2Eb", "=": "=3D", "*>": "=2A=3E", "\u00fc": "=C3=BC"} {
		if got := token(name); got != want {
			t.Errorf("token(%q) = %q, want %q", name, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SliceOfN(rapid.StringMatching(`[a=.2E*]{1,4}`), 2, 2).Draw(t, "names")
		if (token(names[0]) == token(names[1])) != (names[0] == names[1]) {
			t.Fatalf("%q and %q: %q and %q", names[0], names[1], token(names[0]), token(names[1]))
		}
		if strings.ContainsAny(token(names[0]), ".*> ") {
			t.Fatalf("%q: %q", names[0], token(names[0]))
		}
	})
}
