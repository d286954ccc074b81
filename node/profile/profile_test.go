package profile

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sapo-swarm/swarm/node/policy"
)

// linear is an engine with known memory: base plus each per sequence. It fails above limit.
type linear struct {
	resident, base, each, limit int64
	blocks                      int64 // held by the allocator beyond the tensors between calls; twice as much during a call
	largest                     map[string]int
}

func (l *linear) memory(sequences int) (policy.Memory, error) {
	peak := l.resident + l.base + int64(sequences)*l.each
	if l.limit > 0 && peak > l.limit {
		return policy.Memory{}, &policy.Error{Kind: policy.KindOutOfMemory, Message: "out of memory"}
	}
	m := policy.Memory{CallBeginBytes: l.resident, CallPeakBytes: peak}
	if l.blocks > 0 {
		m.CallBeginReservedBytes, m.CallPeakReservedBytes = l.resident+l.blocks, peak+2*l.blocks
	}
	return m, nil
}

func (l *linear) Generate(_ context.Context, p policy.GenerateParams) (policy.GenerateResult, error) {
	l.largest[Generate] = max(l.largest[Generate], len(p.Prompts)*p.NumGenerations)
	m, err := l.memory(len(p.Prompts) * p.NumGenerations)
	return policy.GenerateResult{Memory: m}, err
}

func (l *linear) Update(_ context.Context, p policy.UpdateParams) (policy.UpdateResult, error) {
	l.largest[Update] = max(l.largest[Update], p.MicroBatch)
	m, err := l.memory(p.MicroBatch)
	return policy.UpdateResult{Memory: m}, err
}

func (l *linear) Trim(context.Context) (policy.Memory, error) { return policy.Memory{}, nil }

func options() Options {
	return Options{PromptTokens: 12, CompletionTokens: 4, Prompts: 4, Generations: 8, Sequences: 64, Vocabulary: 257}
}

// On a GPU the allocator's blocks count as a node's memory.
func TestReservedMemoryCounts(t *testing.T) {
	engine := &linear{resident: 2e9, base: 3e8, each: 4e7, blocks: 1e8, largest: map[string]int{}}
	result, err := Run(t.Context(), engine, options())
	require.NoError(t, err)
	require.Equal(t, Result{Resident: 2.1e9, Generate: Line{4e8, 4e7}, Update: Line{4e8, 4e7}, Points: result.Points}, result)
}

func TestALineIsFoundAgain(t *testing.T) {
	engine := &linear{resident: 2e9, base: 3e8, each: 4e7, largest: map[string]int{}}
	o := options()
	steps := 0
	o.Progress = func(s Step) {
		require.Equal(t, steps, s.Done)
		require.Less(t, s.Done, s.Total)
		steps++
	}
	result, err := Run(t.Context(), engine, o)
	require.NoError(t, err)
	require.Equal(t, Result{Resident: 2e9, Generate: Line{3e8, 4e7}, Update: Line{3e8, 4e7}, Points: result.Points}, result)
	require.Equal(t, map[string]int{Generate: 32, Update: 64}, engine.largest, "the largest a round can be")
	require.Len(t, result.Points, 6+7)
	require.EqualValues(t, 3e8+64*4e7, result.Update.At(64))
}

func TestWhatDoesNotFitEndsTheSeries(t *testing.T) {
	engine := &linear{resident: 1000, base: 100, each: 10, limit: 1000 + 100 + 16*10, largest: map[string]int{}}
	result, err := Run(t.Context(), engine, options())
	require.NoError(t, err)
	require.Equal(t, Line{100, 10}, result.Update)
	last := result.Points[len(result.Points)-1]
	require.Equal(t, Point{Phase: Update, Sequences: 32}, last)

	engine.limit = 1
	_, err = Run(t.Context(), engine, options())
	var refused *policy.Error
	require.True(t, errors.As(err, &refused), "%v", err)
	require.ErrorContains(t, err, "one sequence of 16 tokens")
}

func TestOnePointPromisesNothingForMore(t *testing.T) {
	engine := &linear{resident: 1000, base: 100, each: 10, limit: 1000 + 100 + 10, largest: map[string]int{}}
	result, err := Run(t.Context(), engine, options())
	require.NoError(t, err)
	require.Equal(t, Line{0, 110}, result.Update)
}

func TestUpdatesEndWhereAForwardPassDoes(t *testing.T) {
	engine := &linear{resident: 1000, base: 100, each: 10, largest: map[string]int{}}
	o := options()
	o.Rows = 6
	_, err := Run(t.Context(), engine, o)
	require.NoError(t, err)
	require.Equal(t, map[string]int{Generate: 32, Update: 6}, engine.largest)
	o.Sizes = []int{8, 16}
	result, err := Run(t.Context(), engine, o)
	require.NoError(t, err)
	require.Equal(t, Line{100, 10}, result.Update, "from 1 and 6")
}

func TestSizesAreThoseAskedFor(t *testing.T) {
	engine := &linear{resident: 10, largest: map[string]int{}}
	o := options()
	o.Sizes = []int{8, 2, 8, 1000}
	result, err := Run(t.Context(), engine, o)
	require.NoError(t, err)
	require.Len(t, result.Points, 4)
	require.Equal(t, []int{1, 2, 4, 8, 9}, DefaultSizes(9))
	require.Equal(t, []int{1}, DefaultSizes(0))
	o.Prompts = 0
	_, err = Run(t.Context(), engine, o)
	require.Error(t, err)
}

func TestNoPointLiesAboveTheLine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var points []Point
		for range rapid.IntRange(1, 8).Draw(t, "points") {
			points = append(points, Point{
				Phase: Update, Fits: true, Sequences: rapid.IntRange(1, 512).Draw(t, "sequences"), Bytes: rapid.Int64Range(0, 1<<40).Draw(t, "bytes"),
			})
		}
		line := fitLine(points, Update)
		for _, p := range points {
			if line.At(p.Sequences) < p.Bytes || line.Base < 0 || line.PerSequence < 0 {
				t.Fatalf("%+v below %+v", line, p)
			}
		}
	})
}
