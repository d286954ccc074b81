package workload

import (
	"fmt"
	"math"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/internal/units"
)

const (
	mib = int64(1) << 20
	gib = int64(1) << 30
)

func load(t testing.TB, name string) configs.Workload {
	t.Helper()
	w, err := configs.LoadWorkload(name)
	require.NoError(t, err)
	return w
}

// loadAll reads the profiles once, because a property test uses them hundreds of times.
func loadAll(t testing.TB) map[string]configs.Workload {
	all := map[string]configs.Workload{}
	for _, name := range configs.Workloads() {
		all[name] = load(t, name)
	}
	return all
}

func recommend(t testing.TB, w configs.Workload, r Request) Recommendation {
	t.Helper()
	out, err := Recommend(w, r)
	require.NoError(t, err)
	return out
}

// text returns a named value of a list.
func text(values []Value, name string) string {
	for _, v := range values {
		if v.Name == name {
			return v.Value
		}
	}
	return ""
}

// Guide 2's tables: batch, accumulation, effective batch, expected memory and percentage, and the stages' values.
func TestNaicsEmbedderIsGuide2sTable(t *testing.T) {
	w := load(t, "naics-embedder")
	for _, tt := range []struct {
		gb, batch, accumulate, effective int
		expected, percent, later         string // later: of stages 02-05
	}{
		{24, 45, 5, 225, "19.8 GiB", "83", ""},
		{32, 64, 4, 256, "26.5 GiB", "83", ""},
		{40, 82, 3, 246, "33.9 GiB", "85", ""},
		{80, 128, 2, 256, "51.5 GiB", "64", "21.4 GiB"}, // the guide has no percentage here
	} {
		// As typed, and as drivers report such cards.
		for _, memory := range []int64{int64(tt.gb) * gib, int64(tt.gb)*gib - 250*mib} {
			r := recommend(t, w, Request{GPUMemory: memory})
			require.True(t, r.Published)
			require.True(t, r.Fits)
			require.Equal(t, []int{tt.batch, tt.accumulate, tt.effective}, []int{r.Batch, r.Accumulate, r.EffectiveBatch}, "%d GB", tt.gb)
			require.Equal(t, tt.expected, units.BytesIn(r.ExpectedBytes, w.Unit), "%d GB", tt.gb)
			require.Equal(t, strconv.Itoa(tt.batch), text(r.Values, "batch_size"))
			require.Equal(t, strconv.Itoa(tt.accumulate), text(r.Values, "accumulate_grad_batches"))
			require.Len(t, r.Stages, 2)
			require.Equal(t, []string{"32", "24", "16", "8"}, []string{
				text(r.Stages[0].Values, "n_positives"), text(r.Stages[0].Values, "n_negatives"),
				text(r.Stages[1].Values, "n_positives"), text(r.Stages[1].Values, "n_negatives"),
			})
			require.Equal(t, r.ExpectedBytes, r.Stages[0].ExpectedBytes)
			if tt.later != "" {
				require.Equal(t, tt.later, units.BytesIn(r.Stages[1].ExpectedBytes, w.Unit))
			}
			if memory == int64(tt.gb)*gib {
				require.Equal(t, tt.percent, fmt.Sprintf("%.0f", 100*r.Utilisation), "%d GB", tt.gb)
			}
			require.Equal(t, tt.gb == 32, len(r.Warnings) == 1, "the guide's 32 GB row alone isn't what its formula gives: %q", r.Warnings)
		}
	}
}

// Guide 2's breakdown of its 24 GB configuration. It rounds 17554 MiB to 17.5 GB and 1500 MiB to 1.5 GB.
func TestNaicsEmbedderIsGuide2sBreakdown(t *testing.T) {
	r := recommend(t, load(t, "naics-embedder"), Request{GPUMemory: 24 * gib})
	got := map[string]int64{}
	for _, c := range r.Components {
		got[c.Name] = (c.Bytes + mib/2) / mib
	}
	require.Equal(t, map[string]int64{
		"model parameters": 201, "optimizer state": 803, "gradients": 201, "activations": 17554, "batch data": 37, "overhead": 1500,
	}, got)
}

// The guide's own program computes the answers to other questions. These are its results.
func TestNaicsEmbedderComputesWhatIsNotInTheTable(t *testing.T) {
	w := load(t, "naics-embedder")
	for _, tt := range []struct {
		name              string
		r                 Request
		batch, accumulate int
	}{
		{"48 GB", Request{GPUMemory: 48 * gib}, 99, 2},
		{"16 GB", Request{GPUMemory: 16 * gib}, 28, 9},
		{"a larger effective batch", Request{GPUMemory: 24 * gib, TargetEffectiveBatch: 512}, 46, 11},
		{"the profile's own, said explicitly, is its row", Request{GPUMemory: 24 * gib, TargetEffectiveBatch: 256, SafetyMargin: 0.85}, 45, 5},
		{"a smaller margin", Request{GPUMemory: 24 * gib, SafetyMargin: 0.75}, 40, 6},
		{"no more than the effective batch", Request{GPUMemory: 80 * gib, TargetEffectiveBatch: 100}, 100, 1},
		{"two GPUs", Request{GPUMemory: 24 * gib, Devices: 2}, 46, 2},
		{"fewer negatives", Request{GPUMemory: 24 * gib, Fixed: map[string]float64{"n_negatives": 16}}, 67, 3},
		{"a batch that is set", Request{GPUMemory: 24 * gib, Fixed: map[string]float64{"batch_size": 22}}, 22, 11},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := recommend(t, w, tt.r)
			require.Equal(t, []int{tt.batch, tt.accumulate}, []int{r.Batch, r.Accumulate})
		})
	}
	two := recommend(t, w, Request{GPUMemory: 24 * gib, Devices: 2})
	require.Equal(t, 46*2*2, two.EffectiveBatch)
	require.Equal(t, "2", text(two.Values, "devices"))
}

// Guide 0's formula: (total - 2 GB) / (1.5 GB x 2.5), and its options.
func TestRLSwarmIsGuide0sFormula(t *testing.T) {
	w := load(t, "rl-swarm")
	for gb := 6; gb < 200; gb++ {
		r := recommend(t, w, Request{GPUMemory: int64(gb) * 1e9})
		require.Equal(t, int((float64(gb)-2)/(1.5*2.5)), r.Batch, "%d GB", gb)
		require.True(t, r.Fits)
	}
	r := recommend(t, w, Request{GPUMemory: 5e9})
	require.Equal(t, 1, r.Batch)
	require.False(t, r.Fits, "one takes 5.75 GB")
	require.Equal(t, []string{"4", "true", "10", "true"}, []string{
		text(r.Values, "gradient_accumulation_steps"), text(r.Values, "gradient_checkpointing"), text(r.Values, "clear_cache_every_n_rounds"),
		text(r.Values, "auto_batch_size"),
	})
	for _, v := range r.Values {
		require.Equal(t, v.Name != "fp16", v.Decided, "%s: fp16 is a remedy, not a recommendation", v.Name)
	}
}

func TestVerlHasARowAndNoFormula(t *testing.T) {
	w := load(t, "verl-grpo")
	r := recommend(t, w, Request{GPUMemory: 81559 * mib})
	require.True(t, r.Published)
	require.True(t, r.Fits)
	require.Equal(t, []string{"512", "128", "16", "True", "True", "0.6"}, []string{
		text(r.Values, "train_batch_size"), text(r.Values, "ppo_mini_batch_size"), text(r.Values, "ppo_micro_batch_size_per_gpu"),
		text(r.Values, "param_offload"), text(r.Values, "optimizer_offload"), text(r.Values, "gpu_memory_utilization"),
	})
	r = recommend(t, w, Request{GPUMemory: 40 * gib})
	require.False(t, r.Published)
	require.False(t, r.Fits, "50 GB don't fit on 40")
	r = recommend(t, w, Request{GPUMemory: 141 * gib})
	require.False(t, r.Published)
	require.True(t, r.Fits)
}

func TestNothingIsKnownOfLoRA(t *testing.T) {
	w := load(t, "lora-classifier")
	r := recommend(t, w, Request{GPUMemory: 24e9})
	require.Equal(t, 128, r.Batch)
	require.Zero(t, r.ExpectedBytes)
	require.False(t, r.Fits)
	require.Len(t, r.Warnings, 1)
	r = recommend(t, w, Request{GPUMemory: 4e9, Fitted: &Line{Fixed: 2e9, PerSample: 20e6}})
	require.Equal(t, []int{70, 1}, []int{r.Batch, r.Accumulate}, "0.85 of 4 GB are 3.4: 70 samples of 20 MB")
	require.True(t, r.Fits)
}

func TestBadRequests(t *testing.T) {
	w := load(t, "naics-embedder")
	for name, r := range map[string]Request{
		"no memory": {}, "negative memory": {GPUMemory: -1}, "a margin above 1": {GPUMemory: gib, SafetyMargin: 1.1},
		"a margin that is no number": {GPUMemory: gib, SafetyMargin: math.NaN()}, "a negative target": {GPUMemory: gib, TargetEffectiveBatch: -1},
		"an unknown value": {GPUMemory: gib, Fixed: map[string]float64{"batchsize": 3}},
		"half a batch":     {GPUMemory: gib, Fixed: map[string]float64{"batch_size": 0.5}},
	} {
		_, err := Recommend(w, r)
		require.ErrorIs(t, err, ErrRequest, name)
	}
	_, err := Recommend(load(t, "verl-grpo"), Request{GPUMemory: gib, TargetEffectiveBatch: 4})
	require.ErrorIs(t, err, ErrRequest, "nothing accumulates there")
}

// Invariants for every built-in profile and any GPU.
func TestRecommendations(t *testing.T) {
	profiles := loadAll(t)
	rapid.Check(t, func(t *rapid.T) {
		w := profiles[rapid.SampledFrom(configs.Workloads()).Draw(t, "profile")]
		r := Request{
			GPUMemory: rapid.Int64Range(gib, 200*gib).Draw(t, "memory"), SafetyMargin: rapid.Float64Range(0.05, 1).Draw(t, "margin"),
			Devices: rapid.IntRange(1, 8).Draw(t, "devices"),
		}
		if rapid.Bool().Draw(t, "fitted") {
			r.Fitted = &Line{Fixed: rapid.Float64Range(0, 8e9).Draw(t, "fixed"), PerSample: rapid.Float64Range(1e3, 4e9).Draw(t, "per sample")}
		}
		if _, accumulates := w.ByRole(configs.RoleAccumulate); accumulates && rapid.Bool().Draw(t, "aims") {
			r.TargetEffectiveBatch = rapid.IntRange(1, 4096).Draw(t, "target")
		}
		out, err := Recommend(w, r)
		require.NoError(t, err)
		require.GreaterOrEqual(t, out.Batch, 1)
		require.Equal(t, out.Batch*out.Accumulate*r.Devices, out.EffectiveBatch)
		known := r.Fitted != nil || len(w.Memory) > 0
		if known && out.Fits && !out.Published {
			require.LessOrEqual(t, float64(out.ExpectedBytes), r.SafetyMargin*float64(r.GPUMemory))
		}
		batch, _ := w.ByRole(configs.RoleBatch)
		accumulate, _ := w.ByRole(configs.RoleAccumulate)
		if r.TargetEffectiveBatch > 0 && known && accumulate.Max == 0 {
			step := out.Batch * r.Devices
			require.Less(t, r.TargetEffectiveBatch-out.EffectiveBatch, step, "one more step would come nearer")
			require.True(t, out.EffectiveBatch <= r.TargetEffectiveBatch || out.Batch == max(1, int(batch.Min)) && out.Accumulate == 1,
				"it is passed only where the least batch does")
		}
		if !known {
			return
		}
		more := r
		more.GPUMemory += rapid.Int64Range(0, 100*gib).Draw(t, "more")
		larger, err := Recommend(w, more)
		require.NoError(t, err)
		if !out.Published && !larger.Published {
			require.GreaterOrEqual(t, larger.Batch, out.Batch, "more memory never gives less")
			require.True(t, larger.Fits || !out.Fits)
		}
		// The result is the largest: one more doesn't fit.
		if out.Fits && !out.Published && r.TargetEffectiveBatch == 0 && w.TargetEffectiveBatch == 0 && out.Batch < maxBatch {
			next := r
			next.Fixed = map[string]float64{batch.Name: float64(out.Batch + 1)}
			beyond, err := Recommend(w, next)
			require.NoError(t, err)
			require.False(t, beyond.Fits)
		}
	})
}

// The published batch sizes never fall with larger cards.
func TestPublishedRowsGrow(t *testing.T) {
	w := load(t, "naics-embedder")
	last := 0
	for memory := 8 * gib; memory < 100*gib; memory += gib / 4 {
		r := recommend(t, w, Request{GPUMemory: memory})
		require.GreaterOrEqual(t, r.Batch+2, last, "%.2f GiB", float64(memory)/float64(gib)) // the guide has 45 for 24 GB, its formula 46
		last = max(last, r.Batch)
	}
}

// Guide 0's formula, for the cards of guide 4's table and for extreme sizes.
func TestRecommendedBatch(t *testing.T) {
	for total, want := range map[int64]int{80e9: 20, 40e9: 10, 32e9: 8, 24e9: 5, 15e9: 3, 5e9: 1, 1e9: 1, 0: 0, -1: 0} {
		require.Equal(t, want, RecommendedBatch(total), "%d", total)
	}
}
