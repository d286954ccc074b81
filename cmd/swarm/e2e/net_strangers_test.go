package e2e

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unicode"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/launcher/workers"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/node/exchange/membership"
	"github.com/sapo-swarm/swarm/node/exchange/natsbus"
	"github.com/sapo-swarm/swarm/node/exchange/sharedir"
)

// A host without nodes ignores unauthenticated messages, both that the run is done and where the swarm is. An
// invitation admits a fixed number of workers. Revoking it revokes all of them.
func TestStrangersEndNothing(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	up := start(t, home, "--listen", "127.0.0.1:0", "--nodes", "0", "--rounds", "1000")
	invitation := invitationOf(t, up)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	liar, err := joinSimulated(ctx, invitation, "liar", t.TempDir(), 8)
	require.NoError(t, err)
	defer func() { _ = liar.close() }()
	beat := func(round int, state event.State) membership.Roster {
		t.Helper()
		b := membership.Beat{Protocol: membership.Protocol, Run: "e-1", Process: "liar", Time: event.Now()}
		for _, a := range liar.assignments {
			b.Nodes = append(b.Nodes, membership.Progress{Node: a.Node, Round: round, State: state})
		}
		roster, err := liar.uplink.Beat(ctx, b)
		require.NoError(t, err)
		return roster
	}
	require.Zero(t, beat(200, event.StateGenerating).Round, "a claim of eight nodes moves the swarm")
	beat(1000, event.StateDone)
	d := membership.Delivery{Protocol: membership.Protocol, Run: "e-1", Outbox: "lies", First: 1}
	for _, a := range liar.assignments {
		data, err := json.Marshal(event.Event{Type: event.TypeState, Time: event.Now(), Node: a.Node, State: event.StateDone, RoundIndex: 1000})
		require.NoError(t, err)
		d.Events = append(d.Events, data)
	}
	receipt, err := liar.uplink.Deliver(ctx, d)
	require.NoError(t, err)
	require.EqualValues(t, len(d.Events), receipt.Acked)

	line := swarm(t, home, "workers", "invite", "class", "--uses", "2", "--expires", "1h")
	require.Equal(t, fail.ExitDone, line.code, line.stderr)
	class := strings.Trim(strings.TrimPrefix(strings.TrimSpace(line.stdout), "swarm join "), "'")
	var pupils []*simWorker
	for _, name := range []string{"one", "two"} {
		w, err := joinSimulated(ctx, class, name, t.TempDir(), 1)
		require.NoError(t, err)
		defer func() { _ = w.close() }()
		pupils = append(pupils, w)
	}
	_, err = joinSimulated(ctx, class, "three", t.TempDir(), 1)
	var refusal *membership.Refusal
	require.ErrorAs(t, err, &refusal)
	require.Equal(t, membership.CodeFull, refusal.Code)
	revoked := swarm(t, home, "workers", "revoke", "class", "--with-workers")
	require.Equal(t, fail.ExitDone, revoked.code, revoked.stderr)
	require.Contains(t, revoked.stderr, "2 workers that joined with it: one, two")
	for _, w := range pupils {
		require.NoError(t, pollFor(patience, "the end of "+w.name, func() (bool, error) {
			_, err := w.uplink.Beat(ctx, membership.Beat{Protocol: membership.Protocol, Run: "e-1", Process: w.name, Time: event.Now()})
			return errors.As(err, &refusal) && refusal.Code == membership.CodeRevoked, nil
		}))
	}
	var listing workers.Listing
	listed := swarm(t, home, "workers", "-o", "json")
	require.NoError(t, json.Unmarshal([]byte(listed.stdout), &listing), listed.stderr)
	for _, l := range listing.Listed {
		require.Equal(t, l.Name != "liar" && l.Name != "invitation", l.Revoked, l.Name)
	}
	require.Equal(t, "invitation", listing.Listed[len(listing.Listed)-3].Invitation)

	beat(1000, event.StateDone)
	require.NoError(t, up.cmd.Process.Signal(syscall.Signal(0)), "the run has ended")
	rows, err := tableRows(home, `SELECT state FROM runs`)
	require.NoError(t, err)
	require.Equal(t, []string{"state=running "}, rows)
	require.NoError(t, up.cmd.Process.Signal(syscall.SIGTERM))
	require.Equal(t, 128+int(syscall.SIGTERM), up.wait(), up.stderr)
	rows, err = tableRows(home, `SELECT state FROM runs`)
	require.NoError(t, err)
	require.Equal(t, []string{"state=stopped "}, rows, "a run without a round is done")
	requireNoProcess(t, home)

	attackJoin(t, liar.welcome)
}

// evil is a coordinator with scripted answers.
type evil struct {
	registry *membership.Registry

	mu      sync.Mutex
	welcome membership.Welcome
	joined  membership.Joined
	refusal *membership.Refusal // instead of a welcome
}

func (e *evil) Enrol(_ context.Context, q membership.Enrol) (membership.Enrolled, error) {
	return e.registry.Enrol(q)
}

func (e *evil) Hello(context.Context, string, membership.Hello) (membership.Welcome, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.refusal != nil {
		return membership.Welcome{}, e.refusal
	}
	return e.welcome, nil
}

func (e *evil) Join(context.Context, string, membership.Join) (membership.Joined, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.joined, nil
}

func (e *evil) Beat(context.Context, string, membership.Beat) (membership.Roster, error) {
	return membership.Roster{Version: 1, Ended: "stopped", Message: "\x1b[2Jover"}, nil
}

func (e *evil) Deliver(_ context.Context, _ string, d membership.Delivery) (membership.Receipt, error) {
	return membership.Receipt{Acked: d.First + int64(len(d.Events)) - 1}, nil
}

func (e *evil) Offer(context.Context, string, membership.Offer) error { return nil }

// attackJoin runs swarm join against a malicious coordinator, over a network and through a folder. honest is a
// welcome of an honest coordinator.
func attackJoin(t *testing.T, honest membership.Welcome) {
	registry, err := membership.OpenRegistry(filepath.Join(t.TempDir(), "workers"))
	require.NoError(t, err)
	token, err := registry.Invite("", false)
	require.NoError(t, err)
	certificate, fingerprint, err := natsbus.Certificate(t.TempDir(), []string{"127.0.0.1"})
	require.NoError(t, err)
	server, err := natsbus.Start(natsbus.ServerOptions{
		Dir: t.TempDir(), Listen: "127.0.0.1:0", Admit: registry.Check, TLS: &tls.Config{Certificates: []tls.Certificate{certificate}},
	})
	require.NoError(t, err)
	t.Cleanup(server.Shutdown)
	shared := t.TempDir()
	dir, err := sharedir.Folder(shared, "e")
	require.NoError(t, err)
	require.NoError(t, sharedir.Announce(dir, honest))
	e := &evil{registry: registry}
	ctx, cancel := context.WithCancel(context.Background())
	var serving sync.WaitGroup
	defer serving.Wait()
	defer cancel()
	serving.Go(func() { _ = server.ServeAdmission(ctx, e) })
	serving.Go(func() {
		_ = sharedir.ServeAdmission(ctx, dir, honest.Run, e, sharedir.ServeOptions{Poll: 10 * time.Millisecond})
	})
	invitation := membership.Invitation{Scheme: membership.SchemeTLS, Hosts: []string{server.Addr().String()}, Fingerprint: fingerprint, Token: token}

	seat := func(node string) membership.Joined {
		return membership.Joined{Assignments: []membership.NodeAssignment{{Node: node, Evaluated: []int{}}}}
	}
	for name, change := range map[string]func(*evil){
		"a node out of the run": func(e *evil) { e.joined = seat("../../../../precious") },
		"another's node":        func(e *evil) { e.joined = seat("engine-host") },
		"a run out of the home": func(e *evil) { e.welcome.Run = "../../precious" },
		"a model that commands": func(e *evil) { e.welcome.Config = json.RawMessage(`{"model":"\u001b]0;owned\u0007\u001b[2J"}`) },
		"a refusal that commands": func(e *evil) {
			e.refusal = &membership.Refusal{Code: "banned", Message: "no\x1b[2J\x1b]0;owned\x07\u009b31m"}
		},
		"a wait without end":        func(e *evil) { e.refusal = &membership.Refusal{Code: "name", Message: "later", RetryAfter: 1e12} },
		"a member out of a folder":  func(e *evil) { e.joined = membership.Joined{} },
		"an unknown kind of answer": func(e *evil) { e.refusal = &membership.Refusal{Code: "\x1b[31m", Message: ""} },
	} {
		for _, way := range []string{"network", "folder"} {
			if way == "folder" && strings.Contains(name, "another") {
				continue // slower, for the same check
			}
			outside := t.TempDir()
			home := filepath.Join(outside, "a", "b", "home")
			precious := filepath.Join(outside, "precious")
			require.NoError(t, errors.Join(os.MkdirAll(home, 0o700), os.MkdirAll(precious, 0o700)))
			require.NoError(t, os.WriteFile(filepath.Join(precious, "pid.json"), []byte(`{"pid": 4711}`), 0o600))
			before := treeWithout(t, outside, home)
			e.mu.Lock()
			e.welcome, e.joined, e.refusal = honest, seat("anna_0"), nil
			change(e)
			e.mu.Unlock()
			args := []string{"join", "--name", "anna", "--wait", "2s", "--nodes", "1", "--device", "cpu", "--model", tinyModel(), "--tasks-file", items()}
			if way == "network" {
				args = append(args, invitation.String())
			} else {
				args = append(args, "--shared", shared, "--experiment", "e")
			}
			out := swarm(t, home, args...)
			require.NotEqual(t, fail.ExitDone, out.code, "%s, %s: %s%s", name, way, out.stdout, out.stderr)
			require.Contains(t, out.stderr, "Error: ", "%s, %s", name, way)
			for _, r := range out.stdout + out.stderr {
				require.False(t, r != '\n' && r != '\t' && unicode.IsControl(r), "%s, %s: %q", name, way, out.stdout+out.stderr)
			}
			require.Equal(t, before, treeWithout(t, outside, home), "%s, %s", name, way)
			requireNoProcess(t, home)
		}
	}
}

// treeWithout lists a folder's files with their contents, except for one subfolder.
func treeWithout(t *testing.T, dir, home string) (all []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case path == home:
			return fs.SkipDir
		case !entry.IsDir():
			data, err := os.ReadFile(path)
			all = append(all, fmt.Sprintf("%s %q", path, data))
			return err
		}
		all = append(all, path)
		return nil
	}))
	return all
}
