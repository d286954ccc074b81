package node

import (
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/node/policy"
	"github.com/sapo-swarm/swarm/node/protocol"
)

// A lease requests the measured memory of the phase, and cached memory is freed before the lease ends.
func TestTenantLease(t *testing.T) {
	for _, trims := range []bool{true, false} {
		l := newLink(t, protocol.Start{Leased: true, BudgetBytes: 2500})
		g := &gpu{room: 5000, weights: 1000, each: 100, budget: 2500}
		p, err := govern(t, g, t.TempDir(), func(p *governed) { p.meter.expected = protocol.Transient{GenerateBytes: 70, UpdateBytes: 90} })
		require.NoError(t, err)
		host := &leaseHost{Link: l.Link, governed: p, trims: trims}

		// lease runs a call under a lease. It returns the bytes requested and the engine's calls until the lease
		// ended.
		lease := func(phase string, call func()) (bytes int64, calls []string) {
			t.Helper()
			released := make(chan error, 1)
			before := len(g.engines[0].calls)
			go func() {
				release, err := host.Lease(t.Context(), phase)
				if err == nil {
					call()
					release()
					release()
				}
				released <- err
			}()
			asked := l.next()
			require.Equal(t, event.TypeLease, asked.Type)
			require.Equal(t, phase, asked.Lease.Phase)
			l.command(protocol.Command{Type: protocol.CommandGrant, Lease: asked.Lease})
			end := l.next()
			require.Equal(t, event.TypeRelease, end.Type)
			require.Equal(t, asked.Lease.ID, end.Lease.ID)
			calls = g.engines[0].calls[before:]
			require.NoError(t, <-released)
			require.Equal(t, calls, g.engines[0].calls[before:], "nothing happens after the lease")
			return asked.Lease.Bytes, calls
		}
		update := func() {
			_, err := p.Update(t.Context(), policy.UpdateParams{MicroBatch: 2, Sequences: batch(2).Sequences})
			require.NoError(t, err)
		}
		want := []string{"update 2"}
		if trims {
			want = append(want, "trim")
		}
		bytes, _ := lease(phaseLoad, func() {})
		require.Zero(t, bytes)
		bytes, calls := lease(phaseUpdate, update)
		require.EqualValues(t, 90, bytes, "the plan's")
		require.Equal(t, want, calls)
		bytes, _ = lease(phaseUpdate, update)
		require.EqualValues(t, 220, bytes, "measured")
		bytes, _ = lease(phaseGenerate, func() {})
		require.EqualValues(t, 70, bytes)

		g.budget = 2150
		bytes, calls = lease(phaseUpdate, update)
		require.EqualValues(t, 110, bytes, "for the sequences that the new budget holds")
		require.Equal(t, "configure", calls[0])
		require.Equal(t, "update 1", calls[1])

		g.engines[0].gpu.dies = "trim"
		lease(phaseGenerate, func() {})
	}
}

// Without leases no other node waits for the memory. The node only frees what a generation leaves cached, for its
// own update.
func TestTenantTrimsWithoutLeases(t *testing.T) {
	l := newLink(t, protocol.Start{BudgetBytes: 2500})
	g := &gpu{room: 5000, weights: 1000, each: 100, budget: 2500}
	p, err := govern(t, g, t.TempDir(), nil)
	require.NoError(t, err)
	host := &leaseHost{Link: l.Link, governed: p, trims: true}
	for _, tt := range []struct {
		phase string
		want  []string
	}{{phaseLoad, []string{"trim"}}, {phaseGenerate, []string{"trim"}}, {phaseUpdate, nil}} {
		before := len(g.engines[0].calls)
		release, err := host.Lease(t.Context(), tt.phase)
		require.NoError(t, err)
		require.Len(t, g.engines[0].calls, before, "not before the phase is over")
		release()
		release()
		require.ElementsMatch(t, tt.want, g.engines[0].calls[before:], tt.phase)
	}
}

func TestLinkBudget(t *testing.T) {
	l := newLink(t, protocol.Start{BudgetBytes: 100})
	require.EqualValues(t, 100, l.Budget())
	l.command(protocol.Command{Type: protocol.CommandBudget, BudgetBytes: 250})
	l.command(protocol.Command{Type: protocol.CommandStop})
	<-l.Stopping()
	require.EqualValues(t, 250, l.Budget())
}

// Before the model is loaded, a lease has nothing to trim.
func TestTenantLeaseWithoutAnEngine(t *testing.T) {
	l := newLink(t, protocol.Start{})
	p := &governed{meter: &meter{}, logger: slog.New(slog.DiscardHandler)}
	host := &leaseHost{Link: l.Link, governed: p, trims: true}
	release, err := host.Lease(t.Context(), phaseLoad)
	require.NoError(t, err)
	release()
}
