package report_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/report"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// joined returns a database with a run that the worker anna joined. Her host and reason are untrusted texts.
func joined(t *testing.T) *store.Reader {
	t.Helper()
	s, err := store.Open(t.Context(), filepath.Join(t.TempDir(), "swarm.db"), store.Options{})
	require.NoError(t, err)
	require.NoError(t, s.StartRun(t.Context(), store.Run{Run: "shared-1", Experiment: "shared", Rounds: 6, NodeIDs: []string{"node_0"}, NumTrainSamples: 4,
		NumTransplantTrees: 4, NumGenerations: 8, Started: started}))
	require.NoError(t, s.SaveWorker(t.Context(), "shared-1", store.Worker{Worker: "anna", Host: "<b>host</b>", Device: "NVIDIA T4", Offered: 9, Refused: 2,
		LastSeen: started + 60, Reason: "<i>rate</i>"}))
	tell := func(e event.Event) {
		e.Run, e.Time = "shared-1", started+e.Time
		require.NoError(t, s.Record(t.Context(), e))
	}
	tell(event.Event{Type: event.TypeJoin, Node: "anna_0", Worker: "anna", Time: 10, RoundIndex: 2, Message: "gpt2 on NVIDIA T4"})
	for round := range 5 {
		tell(event.Event{Type: event.TypeRound, Node: "node_0", Time: 20 * float64(round+1), Round: &event.Round{Round: round, Reward: 0.5, Completions: 32,
			Peers: []event.Peer{{Node: "anna_0", Available: 6, Rejected: 2, Used: 3}}}})
	}
	for round := 2; round < 4; round++ {
		tell(event.Event{Type: event.TypeRound, Node: "anna_0", Worker: "anna", Time: 20 * float64(round+1), Round: &event.Round{Round: round, Reward: 0.25}})
	}
	tell(event.Event{Type: event.TypeLeave, Node: "anna_0", Worker: "anna", Time: 100, Message: "silent for 15s"})
	require.NoError(t, s.Close())
	reader, err := store.OpenReader(t.Context(), s.Path())
	require.NoError(t, err)
	t.Cleanup(func() { reader.Close() })
	return reader
}

func TestAReportTellsOfWorkers(t *testing.T) {
	page := write(t, joined(t), options())
	keep(t, "workers.html", page)
	require.Contains(t, page, `<section id="workers">`)
	require.Contains(t, page, `<td class="number">75.0`+"\u00a0"+`%</td><td class="number">50.0`+"\u00a0"+`%</td><td class="number">2 of 9</td>`)
	require.NotContains(t, page, "<b>host</b>")
	require.NotContains(t, page, "<i>rate</i>")
	require.Contains(t, page, "joins at round 2: gpt2 on NVIDIA T4")
	require.Contains(t, page, "is away: silent for 15s")
	require.Contains(t, element(t, page, "documents"), `"useful_ratio":0.75`)
	r, err := report.Read(t.Context(), joined(t), options())
	require.NoError(t, err)
	require.Equal(t, 5, r.Runs[0].Status.Round, "nobody waits for a node that is away")
	require.InDelta(t, 5*0.5+2*0.25, r.Runs[0].Status.CumulativeReward, 1e-12, "what it did counts")
}

func TestAReportWithoutWorkersHasNoSectionForThem(t *testing.T) {
	require.NotContains(t, write(t, database(t, paperRuns(1, 2, 1)...), options()), `id="workers"`)
}
