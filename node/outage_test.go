package node

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/node/exchange"
	"github.com/sapo-swarm/swarm/node/exchange/membership"
	"github.com/sapo-swarm/swarm/node/journal"
	"github.com/sapo-swarm/swarm/node/protocol"
)

// wire is an exchange that the test can cut. Calls then block until their context ends, as they do when packets are
// lost.
type wire struct {
	exchange.Exchange
	cut     bool
	refusal error // of Publish
	shared  []int
	tries   int // Publish calls while cut
}

func (w *wire) Publish(ctx context.Context, batch exchange.Batch) error {
	if w.cut {
		w.tries++
		<-ctx.Done()
		return fmt.Errorf("share round %d: %w", batch.Round, context.Cause(ctx))
	}
	if w.refusal != nil {
		return w.refusal
	}
	w.shared = append(w.shared, batch.Round)
	return w.Exchange.Publish(ctx, batch)
}

// remote returns a node on another host with a peer node_1 that has shared rounds 0 to 9.
func remote(t *testing.T) (*Node, *wire, *[]string) {
	c := testConfig(t)
	c.BarrierDeadline, c.MaxCompletionLength = 0.3, 48
	server := broker(t, "remote")
	w := &wire{Exchange: join(t, server, "remote", "node_0")}
	record := &recorder{Policy: &scripted{answer: func(int, int) string { return "<answer>1</answer>" }}}
	n := newNode(t, c, "node_0", record, nil, newHost("node_0", "node_1"))
	var warnings []string
	n.Swarm, n.Mode.Remote, n.Warn = w, true, func(message string) { warnings = append(warnings, message) }
	other := join(t, server, "remote", "node_1")
	for round := range 10 {
		require.NoError(t, other.Publish(t.Context(), answers(t, n, "node_1", round)))
	}
	return n, w, &warnings
}

// A worker's node that loses the connection trains alone and warns once. When it is connected again it shares the
// batches it kept.
func TestARemoteNodeGoesOnAlone(t *testing.T) {
	n, w, warnings := remote(t)
	round := func(round int) event.Round {
		t.Helper()
		began := time.Now()
		report, err := n.Round(t.Context(), round)
		require.NoError(t, err)
		require.Equal(t, w.cut, report.Late)
		if w.cut {
			require.Equal(t, []event.Peer{{Node: "node_1", Late: true}}, report.Peers)
			require.Less(t, time.Since(began), 2*n.deadline(), "no longer than the barrier's deadline, and the round")
		} else {
			require.Equal(t, 2, report.TrainedExternal)
		}
		require.Equal(t, 1, report.Steps)
		return report
	}
	round(0)
	w.cut = true
	round(1)
	n.outage.rest = time.Now().Add(time.Hour)
	tries := w.tries
	round(2)
	require.Equal(t, tries, w.tries, "after a try it trains for a while")
	n.outage.rest = time.Time{}
	round(3)
	require.Greater(t, w.tries, tries)
	n.outage.rest = time.Time{}
	require.Len(t, *warnings, 1)
	require.Contains(t, (*warnings)[0], "not reachable in round 1")
	require.Contains(t, (*warnings)[0], ". Try: ")
	w.cut = false
	round(4)
	require.Len(t, *warnings, 2)
	require.Contains(t, (*warnings)[1], "reachable again in round 4: rounds 1 to 3 were trained alone")
	require.Equal(t, []int{0, 4, 1, 2, 3}, w.shared)
	round(5)
	require.Len(t, *warnings, 2)
}

// A slow or silent swarm is not an outage: the node waits for the deadline, without a quorum.
func TestARemoteNodeNeedsNoQuorum(t *testing.T) {
	n, _, warnings := remote(t)
	report, err := n.Round(t.Context(), 20)
	require.NoError(t, err)
	require.True(t, report.Late)
	require.Equal(t, []event.Peer{{Node: "node_1", Late: true}}, report.Peers)
	require.Empty(t, *warnings)
}

// A batch that the coordinator refuses causes one warning for each reason. Revoked credentials end the node.
func TestRefusals(t *testing.T) {
	n, w, warnings := remote(t)
	w.refusal = fmt.Errorf("%w: %w", exchange.ErrRefused, membership.Refuse(membership.CodeRate, "too many rollouts"))
	for r := range 2 {
		report, err := n.Round(t.Context(), r)
		require.NoError(t, err)
		require.Equal(t, 2, report.TrainedExternal)
	}
	require.Len(t, *warnings, 1)
	require.Contains(t, (*warnings)[0], "too many rollouts")
	for _, code := range []string{membership.CodeBanned, membership.CodeRevoked, membership.CodeToken} {
		w.refusal = fmt.Errorf("share: %w", membership.Refuse(code, "you are not welcome"))
		_, err := n.Round(t.Context(), 2)
		require.ErrorContains(t, err, "you are not welcome")
		require.Equal(t, event.CauseExchange, classify(err).Cause)
	}
	w.refusal = exchange.ErrClosed
	_, err := n.Round(t.Context(), 2)
	require.ErrorIs(t, err, exchange.ErrClosed)
}

// A stop also ends the waits of an outage. The number of batches kept is bounded.
func TestAStopEndsAnOutage(t *testing.T) {
	n, w, _ := remote(t)
	n.Config.BarrierDeadline = 0.01
	w.cut = true
	for r := range maxUnsent + 3 {
		_, err := n.Round(t.Context(), r)
		require.NoError(t, err)
	}
	require.Len(t, n.outage.unsent, maxUnsent)
	require.Equal(t, 3, n.outage.unsent[0].Round)
	n.Config.BarrierDeadline, n.outage.rest = soon.Seconds(), time.Time{}
	go func() {
		n.Host.(*host).await(event.StateSharing)
		close(n.Host.(*host).stop)
	}()
	_, err := n.Round(t.Context(), 200)
	require.ErrorIs(t, err, ErrStopped)
}

// On the coordinator's own host a silent bus is a failure.
func TestALocalNodeFailsWithoutItsBus(t *testing.T) {
	n, w, _ := remote(t)
	n.Mode.Remote, w.cut = false, true
	_, err := n.Round(t.Context(), 0)
	require.ErrorIs(t, err, errBusSilent)
	require.Equal(t, event.CauseExchange, classify(err).Cause)
}

// An async node also continues alone.
func TestAnAsyncNodeGoesOnAlone(t *testing.T) {
	for _, away := range []bool{true, false} {
		n, a, _ := asyncNode(t, func(c *configs.Config) { c.BarrierDeadline = 0.1 })
		n.Mode.Remote = away
		a.err = errors.New("no answer")
		report, err := n.Round(t.Context(), 1)
		if !away {
			require.ErrorContains(t, err, "no answer")
			continue
		}
		require.NoError(t, err)
		require.Zero(t, report.TrainedExternal)
		require.True(t, n.outage.cut)
	}
}

// The next process reads from the journal the batches that a process could not share, and the rollouts that it
// drew.
func TestAnotherLifeSharesWhatWasKept(t *testing.T) {
	n, w, _ := remote(t)
	dir := t.TempDir()
	log, err := journal.Open(dir, n.Logger)
	require.NoError(t, err)
	require.NoError(t, log.Resume(0))
	n.Journal = log
	for r := range 4 {
		w.cut = r == 1 || r == 2
		n.outage.cut = false // else round 3 would share them first
		n.outage.unsent = nil
		_, err := n.Round(t.Context(), r)
		require.NoError(t, err)
	}
	require.NoError(t, log.Close())
	n.outage, n.Journal, w.shared = outage{}, nil, nil
	n.remember(protocol.Start{Dir: dir}, 4)
	_, err = n.Round(t.Context(), 4)
	require.NoError(t, err)
	require.Equal(t, []int{4, 1, 2}, w.shared)
}
