package study

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/metrics/stats/rates"
	"github.com/sapo-swarm/swarm/metrics/stats/sweep"
	"github.com/sapo-swarm/swarm/metrics/store"
)

func TestTheRatesOfPilots(t *testing.T) {
	t.Parallel()
	for own, want := range map[float64][]float64{
		1e-4: {3.3e-5, 1e-4, 3e-4}, 5e-6: {1.7e-6, 5e-6, 1.5e-5}, 1.234e-3: {4.1e-4, 1.234e-3, 3.7e-3}, 1.0 / 3: {0.11, 1.0 / 3, 1},
	} {
		got, err := (&Pilots{}).rates(own)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	for _, own := range []float64{0, 0.34, 1} {
		_, err := (&Pilots{}).rates(own)
		require.ErrorContains(t, err, "allowed: above 0 and up to 0.33, or --rates")
	}
	got, err := (&Pilots{Rates: " 1e-4, 3e-5", RatesGiven: true}).rates(0)
	require.NoError(t, err)
	require.Equal(t, []float64{1e-4, 3e-5}, got)
}

// What is said of the advice depends on the pilots' outcomes, on where the advised rate lies, and on pass@1.
func TestTheAdviceInWords(t *testing.T) {
	t.Parallel()
	pilot := func(rate float64, outcome string, pass ...float64) rates.Pilot {
		p := rates.Pilot{LearningRate: rate, Outcome: outcome}
		if pass != nil {
			p.Pass = &pass[0]
		}
		return p
	}
	said := func(rounds int, state string, failed int, pilots ...rates.Pilot) string {
		advice := rates.Advice{Pilots: pilots}
		for _, p := range pilots {
			if p.Outcome == rates.Advised {
				advice.LearningRate = &p.LearningRate
			}
		}
		x := Summary{State: state, Status: sweep.Status{Runs: len(pilots), Failed: failed, Rows: []sweep.Row{{Rounds: rounds}}}}
		s := &Sweep{host: Host{Program: "swarm"}}
		return strings.Join(s.adviceLines(advice, x), "\n")
	}
	const done, hint = store.RunDone, "This is a hint, not a verdict: each rate has one seed"
	text := said(80, done, 0, pilot(1e-4, rates.Advised), pilot(3e-4, rates.Alarm))
	require.Contains(t, text, "Advice: learning rate 1e-4. ")
	require.Contains(t, text, hint)
	require.Contains(t, text, "--rounds 140 extends the pilots.")
	require.NotContains(t, text, "No higher rate was tried")
	require.NotContains(t, text, "pass@1")
	require.NotContains(t, said(140, done, 0, pilot(1e-4, rates.Advised), pilot(3e-4, rates.Alarm)), "--rounds")
	require.Contains(t, said(80, done, 0, pilot(1e-4, rates.Possible), pilot(3e-4, rates.Advised)), "No higher rate was tried.")

	require.Contains(t, said(80, done, 0, pilot(1e-4, rates.Possible, 0.35), pilot(3e-4, rates.Advised, 0.3)), "But held-out pass@1 is highest at 1e-4.")
	require.NotContains(t, said(80, done, 0, pilot(1e-4, rates.Possible, 0.3), pilot(3e-4, rates.Advised, 0.3)), "pass@1")
	require.NotContains(t, said(80, done, 0, pilot(1e-4, rates.Advised, 0.3), pilot(3e-4, rates.Alarm, 0.4)), "pass@1")

	require.Equal(t, "No advice yet: 1 of 2 pilots is not finished. The same command continues.",
		said(80, store.RunStopped, 0, pilot(1e-4, rates.Possible), pilot(3e-4, rates.Unfinished)))
	require.Equal(t, "No advice yet: 2 of 2 pilots are not finished. The same command continues. swarm logs RUN shows why a pilot failed.",
		said(80, store.RunFailed, 2, pilot(1e-4, rates.Unfinished), pilot(3e-4, rates.Unfinished)))
	require.Equal(t, "None of these rates is advised: each pilot raised the alarm or has no gradient norm. Try lower ones: --rates 1.1e-5,3.3e-5.",
		said(80, done, 0, pilot(1e-4, rates.Alarm), pilot(3e-4, rates.Unknown)))
}
