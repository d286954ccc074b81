package policy_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/node/policy"
)

var update = flag.Bool("update", false, "write testdata/requests.jsonl anew")

// requests returns one request of every call, with no field at its zero value. The engine's tests parse the same
// lines.
func requests() []policy.Request {
	prompts := [][]int{{72, 105}, {7}}
	sequences := []policy.Sequence{
		{
			Prompt: 1, Completion: []int{1, 2, 256}, Advantage: -0.5,
			OldLogprobs: []float64{-1.5, -2, -1e-7}, SamplingLogprobs: []float32{-1.25, -0.1, -1e-7}, External: true,
		},
		{Prompt: 0, Completion: []int{3}},
	}
	yes, no, limit := true, false, int64(8<<30)
	calls := []policy.Request{
		{Call: "hello", Params: policy.HelloParams{Protocol: policy.ProtocolVersion}},
		{Call: "load", Params: policy.LoadParams{
			ModelDir: "/models/<tiny> & \"é\"", RandomInit: true, Seed: 1<<53 - 1, Device: "cuda:1", Precision: "bf16", Threads: 2,
			GradientCheckpointing: true, AdamBeta1: 0.85, AdamBeta2: 0.98, AdamEpsilon: 1e-7, WeightDecay: 0.01,
			MemoryCapBytes: 15 << 30, SelfTest: true, OptimizerOffload: true, ParamOffload: true, CUDAGraphs: true, Ranks: 2,
		}},
		{Call: "generate", Params: policy.GenerateParams{
			Prompts: prompts, NumGenerations: 8, MaxNewTokens: 48, Temperature: 0.9, TopK: 50, TopP: 0.95, EOSTokenID: 256,
			StopTokenIDs: []int{254, 255}, Seed: 12345, MicroBatch: 12,
		}},
		{Call: "update", Params: policy.UpdateParams{
			Prompts: prompts, Sequences: sequences, LearningRate: 1e-5, Temperature: 0.9, Epsilon: 0.2, EpsilonHigh: 0.28, Delta: 4, Beta: 0.04,
			NumIterations: 2, LossType: "dr_grpo", MaxCompletionLength: 48, MaxGradNorm: 1, MicroBatch: 16,
			Correction: policy.CorrectionFTIS, Divergence: 0.5,
		}},
		{Call: "logprobs", Params: policy.LogprobsParams{Prompts: prompts, Sequences: sequences[1:], Temperature: 0.7, MicroBatch: 3}},
		{Call: "save", Params: policy.SaveParams{
			Path: "/runs/a/checkpoint-00000010.safetensors", Format: "checkpoint", DType: "float16", Metadata: map[string]string{"round": "10"},
			Background: true,
		}},
		{Call: "saved", Params: policy.SavedParams{Wait: true}},
		{Call: "restore", Params: policy.RestoreParams{Path: "/runs/a/checkpoint-00000010.safetensors", SHA256: strings.Repeat("0f", 32)}},
		{Call: "configure", Params: policy.ConfigureParams{
			GradientCheckpointing: &yes, OptimizerOffload: &no, ParamOffload: &yes, CUDAGraphs: &no, MemoryCapBytes: &limit,
		}},
		{Call: "memory"},
		{Call: "trim"},
		{Call: "exit"},
	}
	for i := range calls {
		calls[i].ID = int64(i + 1)
	}
	return calls
}

func TestRequestVectors(t *testing.T) {
	var got bytes.Buffer
	for _, request := range requests() {
		line, err := json.Marshal(request)
		require.NoError(t, err)
		got.Write(append(line, '\n'))
	}
	const path = "testdata/requests.jsonl"
	if *update {
		require.NoError(t, os.WriteFile(path, got.Bytes(), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), got.String())
}

// TestAnswerVectors reads an answer to each of the requests. The result types must have exactly the fields that the
// engine sends.
func TestAnswerVectors(t *testing.T) {
	results := map[string]any{
		"hello": &policy.HelloResult{}, "load": &policy.LoadResult{}, "generate": &policy.GenerateResult{}, "update": &policy.UpdateResult{},
		"logprobs": &policy.LogprobsResult{}, "save": &policy.SaveResult{}, "saved": &policy.SaveResult{}, "restore": &policy.RestoreResult{},
		"configure": &policy.Memory{}, "memory": &policy.Memory{}, "trim": &policy.Memory{}, "exit": &struct{}{},
	}
	data, err := os.ReadFile("testdata/answers.jsonl")
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
	calls := requests()
	require.Greater(t, len(lines), len(calls))
	for i, line := range lines {
		var response policy.Response
		require.NoError(t, json.Unmarshal([]byte(line), &response))
		if i >= len(calls) {
			require.Equal(t, &policy.Error{Kind: policy.KindOutOfMemory, Message: "CUDA out of memory", Shortage: &policy.Shortage{
				Where: "device", RequestedBytes: 20 << 20, UsedBytes: 6 << 30, CapBytes: 65e8, FreeBytes: 1 << 30, TotalBytes: 80 << 30,
			}}, response.Error)
			require.Nil(t, response.Result)
			continue
		}
		require.Equal(t, calls[i].ID, response.ID)
		require.Nil(t, response.Error)
		result := results[calls[i].Call]
		decoder := json.NewDecoder(bytes.NewReader(response.Result))
		decoder.DisallowUnknownFields()
		require.NoError(t, decoder.Decode(result), calls[i].Call)
		again, err := json.Marshal(result)
		require.NoError(t, err)
		require.JSONEq(t, string(response.Result), string(again), calls[i].Call)
		value := reflect.ValueOf(result).Elem()
		for f := range value.NumField() {
			require.False(t, value.Field(f).IsZero(), "%s: the vector leaves %s at zero", calls[i].Call, value.Type().Field(f).Name)
		}
	}
}
