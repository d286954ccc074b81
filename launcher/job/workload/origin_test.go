package workload

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sapo-swarm/swarm/configs"
)

// read returns a reading of a value in conf/config.yaml.
func read(name, text string) configs.WorkloadReading {
	return configs.WorkloadReading{Name: name, File: "conf/config.yaml", Line: 9, Text: text, Usable: true}
}

func origin(t testing.TB, values []Value, name string) Origin {
	t.Helper()
	for _, v := range values {
		if v.Name == name {
			return v.Origin
		}
	}
	t.Fatalf("no value %s", name)
	return Origin{}
}

// A flag overrides the file, and the file the profile. A published row applies only to the profile's own values.
func TestAValueIsTheFlagsElseTheFilesElseTheProfiles(t *testing.T) {
	w := load(t, "naics-embedder")
	ask := func(r Request) Recommendation {
		r.GPUMemory = 24 * gib
		return recommend(t, w, r)
	}
	r := ask(Request{})
	require.True(t, r.Published)
	require.Equal(t, Origin{Source: SourceDefault, Used: true, Assumed: true, Why: "no file was read"}, origin(t, r.Values, "max_length"))
	require.Equal(t, SourcePublished, origin(t, r.Values, "batch_size").Source)

	r = ask(Request{Read: []configs.WorkloadReading{read("max_length", "512")}})
	require.True(t, r.Published)
	require.Equal(t, Origin{Source: "conf/config.yaml:9", File: "conf/config.yaml", Line: 9, Current: "512", Used: true}, origin(t, r.Values, "max_length"))

	long := []configs.WorkloadReading{read("max_length", "2048")}
	r = ask(Request{Read: long})
	require.False(t, r.Published)
	require.Equal(t, 5, r.Batch, "activations grow with the square of the length")
	require.Equal(t, SourceComputed, origin(t, r.Values, "batch_size").Source)

	r = ask(Request{Read: long, Fixed: map[string]float64{"max_length": 512}})
	require.Equal(t, 45, r.Batch)
	require.True(t, r.Published, "what is set is what the row is for")
	require.Equal(t, SourceSet, origin(t, r.Values, "max_length").Source)

	stage := configs.WorkloadReading{Stage: "02-05", Name: "n_negatives", File: "s.yaml", Line: 3, Text: "48", Usable: true}
	r = ask(Request{Read: []configs.WorkloadReading{stage}})
	require.False(t, r.Published)
	require.Less(t, r.Batch, 45)
	require.Equal(t, "48", text(r.Stages[1].Values, "n_negatives"))
	require.Equal(t, "s.yaml:3", origin(t, r.Stages[1].Values, "n_negatives").Source)
	require.Equal(t, r.ExpectedBytes, r.Stages[1].ExpectedBytes, "the stage that takes most")
}

// Only values that the memory depends on count as assumed, in their stage.
func TestAssumedIsWhatTheFormulaNeedsAndNobodySaid(t *testing.T) {
	w := load(t, "naics-embedder")
	names := func(r Request) (list []string) {
		r.GPUMemory = 24 * gib
		for _, a := range recommend(t, w, r).Assumed() {
			list = append(list, a.Name+" "+a.Stage)
		}
		return list
	}
	require.Equal(t, []string{"max_length ", "n_negatives 01", "n_negatives 02-05"}, names(Request{}))
	require.Equal(t, []string{"max_length "}, names(Request{Fixed: map[string]float64{"n_negatives": 8}}))
	require.Empty(t, names(Request{Fixed: map[string]float64{"n_negatives": 8}, Read: []configs.WorkloadReading{read("max_length", "64")}}))
	differ := read("max_length", "64")
	differ.Problem = "a:1 has 32 and b:1 has 64"
	require.Equal(t, []string{"max_length "}, names(Request{Fixed: map[string]float64{"n_negatives": 8}, Read: []configs.WorkloadReading{differ}}))
	require.Empty(t, names(Request{Fitted: &Line{Fixed: 1e9, PerSample: 1e8}}), "what is measured assumes nothing")
	r := recommend(t, load(t, "verl-grpo"), Request{GPUMemory: 79 * gib, Read: []configs.WorkloadReading{read("max_response_length", "2048")}})
	require.Contains(t, r.Warnings, "the figures for 4 GPUs of 80 GB are for max_response_length 1024, but the files have 2048")
}

// The files' number of GPUs counts, unless the request has one.
func TestTheFilesSayHowManyGPUsTrain(t *testing.T) {
	w := load(t, "naics-embedder")
	r := recommend(t, w, Request{GPUMemory: 24 * gib, Read: []configs.WorkloadReading{read("devices", "2")}})
	require.Equal(t, []int{2, 46, 2, 184}, []int{r.Devices, r.Batch, r.Accumulate, r.EffectiveBatch})
	require.Equal(t, "conf/config.yaml:9", origin(t, r.Values, "devices").Source)
	r = recommend(t, w, Request{GPUMemory: 24 * gib, Devices: 1, Read: []configs.WorkloadReading{read("devices", "2")}})
	require.Equal(t, 1, r.Devices)
	require.Equal(t, SourceRule, origin(t, r.Values, "devices").Source)
	for _, odd := range []string{"0", "1.5", "100000"} {
		require.Equal(t, 1, recommend(t, w, Request{GPUMemory: 24 * gib, Read: []configs.WorkloadReading{read("devices", odd)}}).Devices, odd)
	}
}

// A value in a file has the same effect as the same value of --set.
func TestAFileAndAFlagGiveTheSameAnswer(t *testing.T) {
	w := load(t, "naics-embedder")
	rapid.Check(t, func(t *rapid.T) {
		length := rapid.IntRange(1, 4096).Draw(t, "length")
		memory := rapid.Int64Range(gib, 200*gib).Draw(t, "memory")
		file, err := Recommend(w, Request{GPUMemory: memory, Read: []configs.WorkloadReading{read("max_length", strconv.Itoa(length))}})
		require.NoError(t, err)
		flag, err := Recommend(w, Request{GPUMemory: memory, Fixed: map[string]float64{"max_length": float64(length)}})
		require.NoError(t, err)
		require.Equal(t, []any{flag.Batch, flag.Accumulate, flag.ExpectedBytes, flag.Published, flag.Fits, flag.Stages[0].ExpectedBytes},
			[]any{file.Batch, file.Accumulate, file.ExpectedBytes, file.Published, file.Fits, file.Stages[0].ExpectedBytes})
	})
}

// If --set confirms a value that can't be read, the file is not changed.
func TestAConfirmedValueIsWrittenOnlyWhereAValueStands(t *testing.T) {
	w := load(t, "naics-embedder")
	decided := func(r configs.WorkloadReading) bool {
		out := recommend(t, w, Request{GPUMemory: 24 * gib, Fixed: map[string]float64{"max_length": 1024}, Read: []configs.WorkloadReading{r}})
		for _, v := range out.Values {
			if v.Name == "max_length" {
				return v.Decided
			}
		}
		return false
	}
	require.True(t, decided(read("max_length", "512")))
	require.False(t, decided(configs.WorkloadReading{Name: "max_length", File: "c.yaml", Line: 2, Text: "${x}", Problem: "no number"}))
	require.False(t, decided(configs.WorkloadReading{Name: "max_length", Problem: "c.yaml does not exist"}))
}
