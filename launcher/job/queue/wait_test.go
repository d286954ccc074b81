package queue

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func lookAt(devices []Device) func(context.Context) ([]Device, error) {
	return func(context.Context) ([]Device, error) { return devices, nil }
}

func TestAWaitEndsWhenAnotherTicketGivesItsRoomBack(t *testing.T) {
	dir := t.TempDir()
	for name, give := range map[string]func(*Ticket) error{
		"leaves": (*Ticket).Leave, "shrinks": func(t *Ticket) error { return t.Adjust(1, nil) },
		"wants less": func(t *Ticket) error {
			if err := t.Change(Need{Bytes: 1}); err != nil {
				return err
			}
			return t.Release()
		},
	} {
		t.Run(name, func(t *testing.T) {
			first := enter(t, open(t, dir), "first", Need{Bytes: 6})
			require.True(t, granted(t, first, card()))
			second := enter(t, open(t, dir), "second", Need{Bytes: 6})
			var told []string
			waiting := make(chan struct{})
			var claim Claim
			done := make(chan error, 1)
			go func() {
				var err error
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
				defer cancel()
				claim, err = second.Wait(ctx, 24*time.Hour, 48*time.Hour, lookAt(card()), func(v Verdict) {
					told = append(told, v.String())
					close(waiting)
				})
				done <- err
			}()
			<-waiting
			require.NoError(t, give(first))
			require.NoError(t, <-done)
			require.Equal(t, "GPU-0", claim.GPU)
			require.Len(t, told, 1, "a line is told once")
			require.NoError(t, second.Leave())
			require.NoError(t, first.Leave())
		})
	}
}

func TestAWaitEndsWhenAKilledOwnerIsSweptByAnybody(t *testing.T) {
	dir := t.TempDir()
	p := start(t, "holder", dir)
	require.Equal(t, "true", p.line(t))
	next := enter(t, open(t, dir), "next", Need{Bytes: 6})
	require.NoError(t, p.Process.Kill())
	_, err := next.Wait(t.Context(), wakePoll, 30*time.Second, lookAt(card()), nil)
	require.NoError(t, err)
}

func TestAWaitIsBounded(t *testing.T) {
	q := open(t, t.TempDir())
	first, second := enter(t, q, "first", Need{Bytes: 6}), enter(t, q, "second", Need{Bytes: 6})
	require.True(t, granted(t, first, card()))
	_, err := second.Wait(t.Context(), time.Hour, 0, lookAt(card()), nil)
	require.ErrorIs(t, err, ErrTimeout)
	require.ErrorContains(t, err, "GPU 0 has 1 kB free of 1 kB")
	_, err = second.Wait(t.Context(), time.Hour, 300*time.Millisecond, lookAt(card()), nil)
	require.ErrorIs(t, err, ErrTimeout)

	require.NoError(t, second.Change(Need{Bytes: 11}))
	_, err = second.Wait(t.Context(), time.Hour, time.Hour, lookAt(card()), nil)
	require.ErrorIs(t, err, ErrTimeout, "no GPU is large enough: waiting can't help")
	require.ErrorContains(t, err, "none is large enough")

	require.NoError(t, second.Change(Need{Bytes: 6}))
	ctx, cancel := context.WithCancelCause(t.Context())
	stopped := errors.New("stopped")
	_, err = second.Wait(ctx, time.Hour, time.Hour, lookAt(card()), func(Verdict) { cancel(stopped) })
	require.ErrorIs(t, err, stopped)
}

func TestADriverThatDoesNotAnswerIsWaitedFor(t *testing.T) {
	ticket := enter(t, open(t, t.TempDir()), "job", Need{Bytes: 6})
	broken := errors.New("no answer. Try: dmesg")
	looks := 0
	look := func(context.Context) ([]Device, error) {
		if looks++; looks < 3 {
			return nil, broken
		}
		return card(), nil
	}
	var told []string
	tell := func(v Verdict) { told = append(told, v.String()) }
	claim, err := ticket.Wait(t.Context(), wakePoll, time.Minute, look, tell)
	require.NoError(t, err)
	require.Equal(t, "GPU-0", claim.GPU)
	require.Equal(t, []string{"waits for a GPU with 1 kB free: no answer"}, told)

	require.NoError(t, ticket.Release())
	never := func(context.Context) ([]Device, error) { return nil, broken }
	_, err = ticket.Wait(t.Context(), wakePoll, 300*time.Millisecond, never, nil)
	require.ErrorIs(t, err, broken, "when time is up")
	_, err = ticket.Wait(t.Context(), time.Hour, 0, never, nil)
	require.ErrorIs(t, err, broken)
}
