package node

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/node/exchange/natsbus"
	"github.com/sapo-swarm/swarm/node/policy"
	"github.com/sapo-swarm/swarm/node/protocol"
	"github.com/sapo-swarm/swarm/node/tokenizer"
)

// The stand-in is an engine without a model: this test program, started as an engine. Its weights are a hash of its
// updates. Its answers are a function of the weights, the prompt and the seed, like a model's. A node with it
// starts and ends in a tenth of a second.

// isStandIn reports whether this process was started as an engine.
func isStandIn() bool { return slices.Equal(os.Args[1:], []string{"-u", "-m", "engine"}) }

// standIn serves calls until its stdin closes.
func standIn() int {
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	out := json.NewEncoder(os.Stdout)
	var weights string
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return 0
		}
		var request struct {
			ID     int64           `json:"id"`
			Call   string          `json:"call"`
			Params json.RawMessage `json:"params"`
		}
		var result any = policy.Memory{}
		if err = json.Unmarshal(line, &request); err == nil {
			result, err = standInCall(&weights, request.Call, request.Params)
		}
		response := map[string]any{"id": request.ID, "result": result}
		if err != nil {
			response = map[string]any{"id": request.ID, "error": policy.Error{Kind: policy.KindInternal, Message: err.Error()}}
		}
		if out.Encode(response) != nil {
			return 1
		}
	}
}

func standInCall(weights *string, call string, params json.RawMessage) (any, error) {
	switch call {
	case "hello":
		return policy.HelloResult{Protocol: policy.ProtocolVersion, PID: os.Getpid()}, nil
	case "load":
		*weights = "first"
		return policy.LoadResult{Architecture: "gpt2", VocabSize: 512, ContextLength: 512}, nil
	case "generate":
		var p policy.GenerateParams
		err := json.Unmarshal(params, &p)
		return standInAnswers(*weights, p), err
	case "update":
		sum := sha256.Sum256(append([]byte(*weights), params...))
		*weights = hex.EncodeToString(sum[:])
		return policy.UpdateResult{Steps: 1, Loss: float64(sum[0])}, nil
	case "save":
		var p policy.SaveParams
		if err := json.Unmarshal(params, &p); err != nil {
			return nil, err
		}
		data, err := json.Marshal(map[string]any{"weights": *weights, "metadata": p.Metadata})
		if err != nil {
			return nil, err
		}
		sum := sha256.Sum256(data)
		return policy.SaveResult{Bytes: int64(len(data)), SHA256: hex.EncodeToString(sum[:]), WeightHash: *weights}, os.WriteFile(p.Path, data, 0o600)
	case "restore":
		var p policy.RestoreParams
		if err := json.Unmarshal(params, &p); err != nil {
			return nil, err
		}
		data, err := os.ReadFile(p.Path)
		if err != nil {
			return nil, err
		}
		var state struct {
			Weights  string
			Metadata map[string]string
		}
		err = json.Unmarshal(data, &state)
		*weights = state.Weights
		return policy.RestoreResult{Metadata: state.Metadata, WeightHash: state.Weights}, err
	}
	return policy.Memory{}, nil
}

// standInAnswers answers 0, 1 or 2 to every question, followed by zero to two more tokens.
func standInAnswers(weights string, p policy.GenerateParams) policy.GenerateResult {
	result := policy.GenerateResult{}
	for i, prompt := range p.Prompts {
		for g := range p.NumGenerations {
			hash := fnv.New64a()
			fmt.Fprint(hash, weights, prompt, p.Seed, i, g)
			luck := hash.Sum64()
			var ids []int
			for _, b := range fmt.Appendf(nil, "<answer>%d</answer>%.*s", luck%3, luck/3%3, "   ") {
				ids = append(ids, int(b))
			}
			ids = append(ids, p.EOSTokenID)
			result.Completions, result.Terminated = append(result.Completions, ids), append(result.Terminated, true)
			result.Logprobs = append(result.Logprobs, make([]float64, len(ids)))
		}
	}
	return result
}

// standInAssignment is the assignment of a node with the stand-in and questions from a file.
func standInAssignment(t *testing.T, server *natsbus.Server, run, node string, members []protocol.Member, change func(*configs.Config)) protocol.Start {
	t.Helper()
	program, err := os.Executable()
	require.NoError(t, err)
	dir := t.TempDir()
	var questions []byte
	for i := range 1500 {
		questions = fmt.Appendf(questions, `{"question":"what is %d modulo three?","answer":"%d","metadata":{"source_dataset":"modulo"}}`+"\n", i, i%3)
	}
	c := testConfig(t)
	c.Tasks = configs.Tasks{Set: "nano", SystemPrompt: "none", File: filepath.Join(dir, "questions.jsonl")}
	require.NoError(t, os.WriteFile(c.Tasks.File, questions, 0o600))
	change(&c)
	require.NoError(t, configs.Validate(c))
	config, err := json.Marshal(c)
	require.NoError(t, err)
	return protocol.Start{
		Protocol: protocol.Version, Run: run, Node: node, Members: members, Dir: filepath.Join(dir, node), Config: config, Python: program,
		EngineDir: dir, Tokenizer: tokenizer.NameBytes, Device: "cpu", Threads: 1,
		Exchange: protocol.Exchange{Kind: protocol.ExchangeNATS, URL: server.URL(), Token: server.Token()}, Leased: true,
	}
}
