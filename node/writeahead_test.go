package node

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/node/exchange"
	"github.com/sapo-swarm/swarm/node/journal"
	"github.com/sapo-swarm/swarm/node/policy"
)

// witness records the order of calls. It is a Journal, and wraps a real exchange and a policy.
type witness struct {
	exchange.Exchange
	Policy
	happened  []string
	generated journal.Generated
	trained   journal.Trained
	published exchange.Batch
	updated   policy.UpdateParams
	failure   map[string]error
}

func (w *witness) note(what string) error {
	if err := w.failure[what]; err != nil {
		return err
	}
	w.happened = append(w.happened, what)
	return nil
}

func (w *witness) Generated(_ int, g journal.Generated) error {
	w.generated = g
	return w.note("log generated")
}

func (w *witness) Trained(_ int, tr journal.Trained) error {
	w.trained = tr
	return w.note("log trained")
}

func (w *witness) Generate(ctx context.Context, p policy.GenerateParams) (policy.GenerateResult, error) {
	_ = w.note("generate")
	return w.Policy.Generate(ctx, p)
}

func (w *witness) Update(ctx context.Context, p policy.UpdateParams) (policy.UpdateResult, error) {
	w.updated = p
	_ = w.note("update")
	return w.Policy.Update(ctx, p)
}

func (w *witness) Publish(ctx context.Context, b exchange.Batch) error {
	w.published = b
	_ = w.note("share")
	return w.Exchange.Publish(ctx, b)
}

// witnessed returns a stage with a witness. Its peers share one useful rollout.
func witnessed(t *testing.T, change func(*configs.Config)) (*stage, *witness) {
	t.Helper()
	s := newStage(t, change)
	w := &witness{Exchange: s.node.Swarm, Policy: s.node.Policy, failure: map[string]error{}}
	s.node.Swarm, s.node.Policy, s.node.Journal = w, w, w
	s.share("node_1", useful(draw(t, s.node.Tasks, 1)))
	s.share("node_2")
	return s, w
}

// The journal is written before sharing and before the update.
func TestTheLogIsWrittenAhead(t *testing.T) {
	for _, iterations := range []int{1, 2} {
		s, w := witnessed(t, func(c *configs.Config) { c.NumIterations, c.MicroBatch = iterations, 5 })
		report, err := s.round()
		require.NoError(t, err)
		require.Equal(t, []string{"generate", "log generated", "share", "log trained", "update"}, w.happened)
		require.Positive(t, report.JournalTime)
		require.Less(t, report.JournalTime, report.StepTime)

		shared, err := exchange.Encode(w.published)
		require.NoError(t, err)
		require.JSONEq(t, string(shared), string(w.generated.Batch))
		require.Len(t, w.generated.Completions, s.config.NumTrainSamples*s.config.NumGenerations)
		require.Equal(t, s.script.generated[0].Seed, w.generated.Seed)
		require.Equal(t, iterations > 1, w.generated.Logprobs != nil)
		require.Equal(t, w.updated, journal.Round{Generated: &w.generated, Trained: &w.trained}.Update())
		require.NotEmpty(t, w.updated.Sequences[0].SamplingLogprobs)
		require.Nil(t, w.trained.Update.Sequences[0].SamplingLogprobs, "the journal has them once")
		require.Equal(t, 5, w.trained.Update.MicroBatch)
		logged := report
		logged.Loss, logged.GradNorm, logged.Steps = 0, 0, 0
		require.NotNil(t, logged.SamplingLogpDifferenceMax)
		logged.SamplingLogpDifferenceMax, logged.SamplingLogpDifferenceMean = nil, nil
		require.Equal(t, timeless(logged), timeless(w.trained.Report))
	}
}

// The node does not share or train on what it cannot log.
func TestARoundEndsWhereItCantBeLogged(t *testing.T) {
	s, w := witnessed(t, nil)
	w.failure["log trained"] = syscall.ENOSPC
	_, err := s.round()
	require.Equal(t, event.CauseDisk, classify(err).Cause)
	require.Equal(t, []string{"generate", "log generated", "share"}, w.happened)
	w.happened, w.failure["log generated"] = nil, errors.New("no")
	_, err = s.round()
	require.Error(t, err)
	require.Equal(t, []string{"generate"}, w.happened)
}

// Logged completions of a previous process are used like new ones, if seed and size match.
func TestLoggedCompletionsAreTaken(t *testing.T) {
	for _, iterations := range []int{1, 2} {
		change := func(c *configs.Config) { c.NumIterations = iterations }
		s, first := witnessed(t, change)
		want, err := s.round()
		require.NoError(t, err)
		data, err := json.Marshal(first.generated)
		require.NoError(t, err)
		cases := []struct {
			name  string
			harm  func(*journal.Generated)
			taken bool
		}{
			{"the same", func(*journal.Generated) {}, true},
			{"another seed", func(g *journal.Generated) { g.Seed++ }, false},
			{"too few", func(g *journal.Generated) { g.Completions = g.Completions[1:] }, false},
			{"no log-probabilities", func(g *journal.Generated) { g.Logprobs, g.Sampled = nil, nil }, iterations == 1},
			{"log-probabilities of some", func(g *journal.Generated) { g.Sampled = g.Sampled[:len(g.Sampled)/2] }, true},
		}
		for _, k := range cases {
			t.Run(k.name, func(t *testing.T) {
				s, w := witnessed(t, change)
				var g journal.Generated
				require.NoError(t, json.Unmarshal(data, &g))
				k.harm(&g)
				s.node.Mode.Recovered = &RecoveredRound{Round: 0, Generated: &g}
				got, err := s.round()
				require.NoError(t, err)
				require.Equal(t, !k.taken, slices.Contains(w.happened, "generate"))
				require.Equal(t, !k.taken, slices.Contains(w.happened, "log generated"), "it is there already")
				if strings.Contains(k.name, "log-probabilities") && iterations == 1 { // the figure is missing, not wrong
					require.Nil(t, got.SamplingLogpDifferenceMax)
					got.SamplingLogpDifferenceMax, got.SamplingLogpDifferenceMean = want.SamplingLogpDifferenceMax, want.SamplingLogpDifferenceMean
					for i := range w.updated.Sequences {
						w.updated.Sequences[i].SamplingLogprobs = first.updated.Sequences[i].SamplingLogprobs
					}
				}
				require.Equal(t, timeless(want), timeless(got))
				require.Equal(t, first.updated, w.updated)
				require.Equal(t, first.published, w.published)
			})
		}
	}
}
