package workers

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/configs/resolve"
	"github.com/sapo-swarm/swarm/internal/layout"
	"github.com/sapo-swarm/swarm/node/exchange/membership"
	"github.com/sapo-swarm/swarm/node/exchange/natsbus"
	"github.com/sapo-swarm/swarm/node/exchange/sharedir"
	"github.com/sapo-swarm/swarm/node/protocol"
)

// hostileCoordinator answers requests as configured.
type hostileCoordinator struct {
	registry *membership.Registry

	mu      sync.Mutex
	welcome membership.Welcome
	joined  membership.Joined
	roster  membership.Roster
	hello   *membership.Refusal // instead of a welcome
	refuse  *membership.Refusal // instead of assignments
}

func (c *hostileCoordinator) Enrol(_ context.Context, e membership.Enrol) (membership.Enrolled, error) {
	return c.registry.Enrol(e)
}

func (c *hostileCoordinator) Hello(context.Context, string, membership.Hello) (membership.Welcome, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.hello != nil {
		return membership.Welcome{}, c.hello
	}
	return c.welcome, nil
}

func (c *hostileCoordinator) Join(context.Context, string, membership.Join) (membership.Joined, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.refuse != nil {
		return membership.Joined{}, c.refuse
	}
	return c.joined, nil
}

func (c *hostileCoordinator) Beat(context.Context, string, membership.Beat) (membership.Roster, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.roster, nil
}

func (c *hostileCoordinator) Deliver(context.Context, string, membership.Delivery) (membership.Receipt, error) {
	return membership.Receipt{RetryAfter: 1e300}, nil
}

func (c *hostileCoordinator) Offer(context.Context, string, membership.Offer) error { return nil }

// hostileText generates hostile names and lines of a coordinator, and honest ones.
func hostileText(honest string) *rapid.Generator[string] {
	return rapid.OneOf(
		rapid.Just(honest), rapid.String(), rapid.StringMatching(`(\.\./){1,4}[a-z]{1,5}`), rapid.StringMatching(`/[a-z]{1,5}(/[a-z]{1,5})?`),
		rapid.SampledFrom([]string{
			"", ".", "..", "-rf", "a/../../b", "anna_0/../../x", "\x1b]0;owned\x07", "\x1b[2J\x1b[31m", "\u009b31m", "a\rb\nc", "\u202egnp", "\x00", "engine-host",
			strings.Repeat("x", 300), "node_0", "anna_0", "anna_1",
		}),
	)
}

func (c *hostileCoordinator) draw(t *rapid.T, run string, welcome membership.Welcome) {
	text := func(honest, what string) string { return hostileText(honest).Draw(t, what) }
	number := func(what string) int { return rapid.OneOf(rapid.IntRange(0, 3), rapid.Int()).Draw(t, what) }
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hello, c.refuse, c.welcome = nil, nil, welcome
	switch rapid.IntRange(0, 5).Draw(t, "what") {
	case 0:
		c.hello = &membership.Refusal{Code: text("rate", "code"), Message: text("no", "message"), RetryAfter: rapid.Float64().Draw(t, "retry")}
	case 1:
		c.refuse = &membership.Refusal{Code: text("full", "code"), Message: text("no", "message"), RetryAfter: rapid.Float64().Draw(t, "retry")}
	case 2:
		c.welcome.Run, c.welcome.Experiment = text(run, "run"), text("e", "experiment")
	case 3:
		c.welcome.Version, c.welcome.Round = text("v", "version"), number("round")
		c.welcome.Inputs = map[string]string{text("model", "key"): text("ab12", "hash")}
		config := configs.Default()
		config.Model = text("nano", "model")
		c.welcome.Config, _ = json.Marshal(config)
	}
	c.joined = membership.Joined{}
	for i := range rapid.IntRange(1, 3).Draw(t, "seats") {
		c.joined.Assignments = append(c.joined.Assignments, membership.NodeAssignment{
			Node: text(fmt.Sprintf("anna_%d", i), "node"), From: number("from"), Recorded: number("recorded"), Evaluated: []int{number("evaluated")},
		})
	}
	c.joined.Roster = membership.Roster{
		Version: 1, Round: number("round"), Ended: text("", "ended"), Message: text("", "message"),
		Members: []protocol.Member{{Node: text("node_0", "member"), From: number("from")}, {Node: text("b", "member"), Trust: text("", "trust")}},
	}
	c.roster = c.joined.Roster
}

// unchanged returns a check that nothing in a folder, except for the home, has changed since this call.
func unchanged(t testing.TB, dir, home string) func() {
	list := func() (all []string) {
		require.NoError(t, filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if path == home {
				return fs.SkipDir
			}
			info, err := entry.Info()
			if err == nil {
				all = append(all, fmt.Sprintf("%s %v %d", path, info.Mode(), info.Size()))
			}
			return err
		}))
		return all
	}
	before := list()
	return func() { require.Equal(t, before, list(), "something outside the worker's home has changed") }
}

// clean fails on characters that control a terminal.
func clean(t *rapid.T, text string) {
	for _, r := range text {
		if r != '\n' && r != '\t' && unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) {
			t.Fatalf("%q is shown", text)
		}
	}
}

// meet lets a worker join the coordinator and checks how it handles the answers: it only accepts names of files in
// its own run, and its output is printable.
func meet(t *rapid.T, o ConnectOptions) {
	var said bytes.Buffer
	o.Stderr, o.Logger = &said, slog.New(slog.NewTextHandler(&said, &slog.HandlerOptions{Level: slog.LevelDebug}))
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	w, err := Connect(ctx, o)
	if err == nil {
		defer func() { _ = w.uplink.Close() }()
		if run := o.Home.Run(w.LocalName() + "-1"); filepath.Dir(run) != o.Home.Runs() {
			t.Fatalf("a run in %s", run)
		}
		w.Differences(Run{Config: configs.Default(), Logger: o.Logger}, "nano")
		var nodes []string
		if nodes, err = w.Join(ctx, Wanted{Nodes: 2, Model: "nano"}); err == nil {
			if len(nodes) != 2 || nodes[0] == nodes[1] {
				t.Fatalf("nodes %q", nodes)
			}
			for _, node := range nodes {
				if !filepath.IsLocal(node) || filepath.Base(node) != node || !strings.HasPrefix(node, "anna_") {
					t.Fatalf("node %q", node)
				}
			}
			roster, err := w.uplink.Beat(ctx, membership.Beat{Protocol: membership.Protocol, Run: w.welcome.Run, Process: w.process})
			if err == nil {
				said.WriteString((&EndedError{State: roster.Ended, Message: roster.Message}).Error())
				for _, m := range roster.Members {
					if !filepath.IsLocal(m.Node) || filepath.Base(m.Node) != m.Node {
						t.Fatalf("member %q", m.Node)
					}
				}
			} else {
				said.WriteString(err.Error())
			}
			receipt, err := w.uplink.Deliver(ctx, membership.Delivery{Protocol: membership.Protocol, Run: w.welcome.Run, Outbox: "o", First: 1})
			if err == nil && receipt.RetryAfter > 300 {
				t.Fatalf("wait for %v s", receipt.RetryAfter)
			}
		}
	}
	if err != nil {
		said.WriteString(Refused(err).Error())
	}
	clean(t, said.String())
}

// For all answers of a coordinator, over a network or through a folder, a worker's paths stay inside its home and
// its output cannot control the terminal.
func TestAHostileCoordinatorReachesNothing(t *testing.T) {
	config, err := json.Marshal(configs.Default())
	require.NoError(t, err)
	welcome := membership.Welcome{
		Protocol: membership.Protocol, Run: "e-1", Experiment: "e", Version: "v", Config: config, Inputs: map[string]string{"model": "ab12"},
	}
	for _, carrier := range []string{"network", "folder"} {
		t.Run(carrier, func(t *testing.T) {
			outside := t.TempDir()
			home := filepath.Join(outside, "a", "b", "home")
			require.NoError(t, os.MkdirAll(home, 0o700))
			require.NoError(t, os.WriteFile(filepath.Join(outside, "pid.json"), []byte(`{"pid":1}`), 0o600))
			registry, err := membership.OpenRegistry(filepath.Join(t.TempDir(), "workers"))
			require.NoError(t, err)
			token, err := registry.Invite("", false)
			require.NoError(t, err)
			c := &hostileCoordinator{registry: registry, welcome: welcome}
			o := ConnectOptions{Name: "anna", Wait: 2 * time.Second, Home: layout.Home(home), Version: "v"}
			ctx, cancel := context.WithCancel(context.Background())
			done := make(chan error, 1)
			defer func() { cancel(); require.NoError(t, <-done) }()
			if carrier == "network" {
				certificate, fingerprint, err := natsbus.Certificate(t.TempDir(), []string{"127.0.0.1"})
				require.NoError(t, err)
				server, err := natsbus.Start(natsbus.ServerOptions{
					Dir: t.TempDir(), Listen: "127.0.0.1:0", Admit: registry.Check, TLS: &tls.Config{Certificates: []tls.Certificate{certificate}},
				})
				require.NoError(t, err)
				t.Cleanup(server.Shutdown) // runs after the admission has ended
				o.Invitation = membership.Invitation{
					Scheme: membership.SchemeTLS, Hosts: []string{server.Addr().String()}, Fingerprint: fingerprint, Token: token,
				}
				go func() { done <- server.ServeAdmission(ctx, c) }()
			} else {
				o.Shared, o.Experiment = t.TempDir(), "e"
				dir, err := sharedir.Folder(o.Shared, "e")
				require.NoError(t, err)
				require.NoError(t, sharedir.Announce(dir, welcome))
				go func() {
					done <- sharedir.ServeAdmission(ctx, dir, "e-1", c, sharedir.ServeOptions{Poll: 5 * time.Millisecond})
				}()
			}
			same := unchanged(t, outside, home)
			rapid.Check(t, func(t *rapid.T) {
				c.draw(t, "e-1", welcome)
				meet(t, o)
			})
			same()
		})
	}
}

// If the coordinator names a model by a folder, the worker warns before it reads the folder.
func TestAModelOfAFolderIsToldOf(t *testing.T) {
	for model, flag := range map[string]string{"/models/theirs": "", "./theirs": "", "gpt2": "", "/models/ours": "gpt2"} {
		config := configs.Default()
		config.Model = model
		data, err := json.Marshal(config)
		require.NoError(t, err)
		w := &Worker{welcome: membership.Welcome{Config: data}}
		var said bytes.Buffer
		flags := &resolve.Flags{}
		if flag != "" {
			flags.Sets = []string{"model=" + flag}
		}
		require.NoError(t, w.TellLocalModel(flags, slog.New(slog.NewTextHandler(&said, nil))))
		require.Equal(t, flag == "" && model != "gpt2", strings.Contains(said.String(), "the coordinator's model is a folder"), model)
	}
}
