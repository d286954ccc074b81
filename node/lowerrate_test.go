package node

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/node/journal"
	"github.com/sapo-swarm/swarm/node/protocol"
)

// ratesOf are the learning rates of a node's journaled updates, by round.
func ratesOf(t *testing.T, dir string) (rates []float64) {
	t.Helper()
	for r, err := range journal.Rounds(dir, 0) {
		require.NoError(t, err)
		require.Equal(t, len(rates), r.Round)
		require.NotNil(t, r.Trained)
		rates = append(rates, r.Trained.Update.LearningRate)
	}
	return rates
}

// A round's rate is the same whenever the node is told, whether it was stopped meanwhile, and how far ahead of the
// others it is: it waits for the verdict.
func TestALoweredRateDoesNotDependOnWhenItIsTold(t *testing.T) {
	t.Parallel()
	const rounds = configs.AlarmLead + 5
	assigned := func(run string, v protocol.Verdicts) protocol.Start {
		start := standInAssignment(t, broker(t, run), run, "node_0", protocol.Members("node_0"), func(c *configs.Config) {
			c.Rounds, c.CheckpointEvery, c.SwarmSize, c.NumTransplantTrees, c.EvalQuestions = rounds, 5, 1, 0, 0
			c.OnAlarm = configs.AlarmLower
		})
		start.Verdicts = &v
		return start
	}
	all := protocol.Verdicts{Judged: rounds, Lowered: []int{3, 22}}
	calmStart := assigned("calm", all)
	calm := begin(t, calmStart)
	calm.ends(ExitDone)
	want := newLedger(t)
	want.take(calm, 0)

	start := assigned("told", protocol.Verdicts{Lowered: []int{3}})
	waits := func(l *nodeProcess, round int) {
		l.await("the verdict", func(e event.Event) bool { return e.State == event.StateBarrier && e.RoundIndex == round })
	}
	first := begin(t, start)
	waits(first, configs.AlarmLead)
	first.command(protocol.Command{Type: protocol.CommandStop})
	first.ends(ExitDone)
	got := newLedger(t)
	got.take(first, 0)
	require.Equal(t, configs.AlarmLead, got.recorded(), "round %d needs the verdict on round 0", configs.AlarmLead)

	start.Recorded = got.recorded()
	again := begin(t, start)
	waits(again, configs.AlarmLead)
	again.command(protocol.Command{Type: protocol.CommandVerdict, Verdicts: &protocol.Verdicts{Judged: 1, Lowered: []int{3}}})
	waits(again, configs.AlarmLead+1)
	again.command(protocol.Command{Type: protocol.CommandVerdict, Verdicts: &all})
	again.ends(ExitDone)
	got.take(again, start.Recorded)

	rates := ratesOf(t, start.Dir)
	require.Equal(t, ratesOf(t, calmStart.Dir), rates)
	rate := testConfig(t).LearningRate
	for round, r := range rates {
		switch {
		case round < 3:
			require.Equal(t, rate, r)
		case round < 22:
			require.Equal(t, rate/3, r)
		default:
			require.Equal(t, rate/3/3, r)
		}
	}
	require.Equal(t, want.checkpoints[rounds], got.checkpoints[rounds], "the weights")
}

// A node whose verdicts don't come goes on after the barrier's deadline.
func TestAVerdictThatDoesNotComeIsNotWaitedForForever(t *testing.T) {
	t.Parallel()
	start := standInAssignment(t, broker(t, "late"), "late", "node_0", protocol.Members("node_0"), func(c *configs.Config) {
		c.Rounds, c.SwarmSize, c.NumTransplantTrees, c.EvalQuestions, c.BarrierDeadline = configs.AlarmLead+1, 1, 0, 0, 0.1
		c.OnAlarm = configs.AlarmLower
	})
	start.Verdicts = &protocol.Verdicts{}
	l := begin(t, start)
	l.ends(ExitDone)
	require.Len(t, ratesOf(t, start.Dir), configs.AlarmLead+1)
}
