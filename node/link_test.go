package node

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/node/protocol"
)

// launcherEnd is the launcher's end of a link, for a test.
type launcherEnd struct {
	*Link
	t      *testing.T
	in     *io.PipeWriter
	send   *event.Writer
	events *event.Reader
	ctx    context.Context // ends when the launcher does
}

// newLink returns a link that has read its assignment.
func newLink(t *testing.T, start protocol.Start) *launcherEnd {
	t.Helper()
	stdin, in := io.Pipe()
	out, stdout := io.Pipe()
	ctx, gone := context.WithCancelCause(context.Background())
	l := &launcherEnd{
		Link: NewLink(stdin, stdout, gone), t: t, in: in, send: event.NewWriter(in), events: event.NewReader(out, event.MaxLine), ctx: ctx,
	}
	t.Cleanup(func() { in.Close(); out.Close() })
	start.Protocol = protocol.Version
	go func() { _ = l.send.Write(protocol.Command{Type: protocol.CommandStart, Start: &start}) }()
	_, err := l.Assignment()
	require.NoError(t, err)
	go l.Serve()
	return l
}

func (l *launcherEnd) command(c protocol.Command) {
	l.t.Helper()
	require.NoError(l.t, l.send.Write(c))
}

func (l *launcherEnd) next() event.Event {
	l.t.Helper()
	var e event.Event
	require.NoError(l.t, l.events.Read(&e))
	require.Positive(l.t, e.Time)
	return e
}

type leased struct {
	release func()
	err     error
}

// ask requests a lease. It returns the request and a channel for the outcome.
func (l *launcherEnd) ask(ctx context.Context) (*event.Lease, <-chan leased) {
	l.t.Helper()
	got := make(chan leased, 1)
	go func() {
		release, err := l.Lease(ctx, "update", 7)
		got <- leased{release, err}
	}()
	e := l.next()
	require.Equal(l.t, event.TypeLease, e.Type)
	require.Equal(l.t, "update", e.Lease.Phase)
	require.EqualValues(l.t, 7, e.Lease.Bytes)
	return e.Lease, got
}

func TestLinkLease(t *testing.T) {
	t.Run("granted and released once", func(t *testing.T) {
		l := newLink(t, protocol.Start{Leased: true})
		asked, got := l.ask(t.Context())
		l.command(protocol.Command{Type: protocol.CommandGrant, Lease: asked})
		lease := <-got
		require.NoError(t, lease.err)
		go func() {
			lease.release()
			lease.release()
			l.Emit(event.Event{Type: event.TypeWarning, Message: "after"})
		}()
		e := l.next()
		require.Equal(t, event.TypeRelease, e.Type)
		require.Equal(t, asked.ID, e.Lease.ID)
		require.Less(t, e.Lease.Seconds, 30.0)
		require.Equal(t, event.TypeWarning, l.next().Type)

		again, _ := l.ask(t.Context())
		require.NotEqual(t, asked.ID, again.ID)
	})
	t.Run("not asked for where leases are not used", func(t *testing.T) {
		l := newLink(t, protocol.Start{})
		release, err := l.Lease(t.Context(), "update", 7)
		require.NoError(t, err)
		release()
	})
	t.Run("withdrawn", func(t *testing.T) {
		why := errors.New("not needed")
		cases := []struct {
			name string
			end  func(l *launcherEnd, cancel context.CancelCauseFunc)
			want error
		}{
			{"by its caller", func(_ *launcherEnd, cancel context.CancelCauseFunc) { cancel(why) }, why},
			{"by a stop", func(l *launcherEnd, _ context.CancelCauseFunc) {
				l.command(protocol.Command{Type: protocol.CommandStop})
			}, ErrStopped},
		}
		for _, c := range cases {
			t.Run(c.name, func(t *testing.T) {
				l := newLink(t, protocol.Start{Leased: true})
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				asked, got := l.ask(ctx)
				c.end(l, cancel)
				e := l.next() // the launcher must remove it from its queue
				require.Equal(t, event.TypeRelease, e.Type)
				require.Equal(t, event.Lease{ID: asked.ID, Phase: "update"}, *e.Lease)
				require.ErrorIs(t, (<-got).err, c.want)
				// A grant on its way finds the lease already released.
				l.command(protocol.Command{Type: protocol.CommandGrant, Lease: asked})
				go l.Emit(event.Event{Type: event.TypeWarning})
				require.Equal(t, event.TypeWarning, l.next().Type)
			})
		}
	})
	t.Run("refused after a stop", func(t *testing.T) {
		for _, leases := range []bool{true, false} {
			l := newLink(t, protocol.Start{Leased: leases})
			l.command(protocol.Command{Type: protocol.CommandStop})
			l.command(protocol.Command{Type: protocol.CommandStop})
			<-l.Stopping()
			_, err := l.Lease(t.Context(), "update", 7)
			require.ErrorIs(t, err, ErrStopped)
		}
	})
}

// In any order of grant and withdrawal, each requested lease is released exactly once.
func TestLinkLeaseRace(t *testing.T) {
	l := newLink(t, protocol.Start{Leased: true})
	const leases = 200
	done := make(chan struct{})
	released := map[int64]int{}
	grants := make(chan *event.Lease, leases)
	go func() {
		defer close(done)
		for len(released) < leases {
			var e event.Event
			if l.events.Read(&e) != nil {
				return
			}
			if e.Type == event.TypeLease {
				grants <- e.Lease
			} else {
				released[e.Lease.ID]++
			}
		}
	}()
	for i := range leases {
		ctx, cancel := context.WithCancel(t.Context())
		got := make(chan struct{})
		go func() {
			defer close(got)
			if release, err := l.Lease(ctx, "update", 7); err == nil {
				release()
			}
		}()
		grant := <-grants
		if i%2 == 0 {
			go cancel()
		}
		l.command(protocol.Command{Type: protocol.CommandGrant, Lease: grant})
		if i%2 == 1 {
			<-got
		}
		cancel()
		<-got
	}
	<-done
	for id, times := range released {
		require.Equal(t, 1, times, "lease %d", id)
	}
	require.Len(t, released, leases)
}

func TestLinkPeersAndEnd(t *testing.T) {
	l := newLink(t, protocol.Start{Members: protocol.Members("node_0", "node_1")})
	members, changed := l.Members()
	require.Equal(t, protocol.Members("node_0", "node_1"), members)
	l.command(protocol.Command{Type: protocol.CommandMembers, Members: protocol.Members("node_0")})
	<-changed
	members, _ = l.Members()
	require.Equal(t, protocol.Members("node_0"), members)
	l.in.Close()
	<-l.ctx.Done()
	require.ErrorIs(t, context.Cause(l.ctx), ErrOrphaned)
}

// A launcher that stops reading counts as dead.
func TestLinkBrokenStdout(t *testing.T) {
	ctx, gone := context.WithCancelCause(t.Context())
	out, stdout := io.Pipe()
	out.Close()
	l := NewLink(strings.NewReader(""), stdout, gone)
	l.State(event.StateDone, 0)
	require.ErrorIs(t, context.Cause(ctx), ErrOrphaned)
}

func TestAssignmentErrors(t *testing.T) {
	cases := []struct{ in, says string }{
		{"no JSON\n", "decode line"},
		{`{"type":"stop"}` + "\n", `first command is "stop", not "start"`},
		{`{"type":"start"}` + "\n", "with no assignment"},
		{`{"type":"start","start":{"protocol":99}}` + "\n", "the launcher uses protocol 99, this program 5"},
	}
	for _, c := range cases {
		var out bytes.Buffer
		code := Process(t.Context(), strings.NewReader(c.in), &out, io.Discard, nil, slog.New(slog.DiscardHandler))
		require.Equal(t, ExitConfig, code, c.in)
		var e event.Event
		require.NoError(t, event.NewReader(&out, event.MaxLine).Read(&e))
		require.Equal(t, event.TypeFailure, e.Type)
		require.Equal(t, event.CauseConfig, e.Cause)
		require.Contains(t, e.Message, c.says)
	}
}
