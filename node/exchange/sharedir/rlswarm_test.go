package sharedir

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/node/exchange"
)

// foreignText is a file in the format of rl-swarm's gdrive_rollout_sharing.py (json.dump, indent 2), with one question
// and two completions.
const foreignText = `{
  "peer_id": "%s",
  "round": %d,
  "stage": 0,
  "timestamp": 1763545173.25,
  "rollouts": {
    "%s": [
      {
        "world_state": {
          "environment_states": {
            "question": "What is 2 + 2? \u00fc",
            "answer": "4",
            "metadata": {"source_dataset": "basic_arithmetic", "source_index": 3, "score": NaN, "dataset_index": 3, "split": "train"}
          },
          "opponent_states": null,
          "personal_states": null
        },
        "actions": ["4", "NaN <answer>5</answer>"],
        "metadata": null
      }
    ]
  }
}`

func putText(t *testing.T, dir, name, text string) {
	t.Helper()
	full := filepath.Join(dir, name)
	require.NoError(t, os.MkdirAll(filepath.Dir(full), 0o755))
	require.NoError(t, os.WriteFile(full, []byte(text), 0o600))
}

func putForeign(t *testing.T, dir, node string, round int) {
	t.Helper()
	putText(t, dir, fmt.Sprintf("rollouts/round_%d/stage_0/%s.json", round, node), fmt.Sprintf(foreignText, node, round, batchID("What is 2 + 2? ü")))
}

// A node gathers the batches of rl-swarm's and of swarm's nodes. It skips an incomplete file and rejects a forged one.
func TestGatherFromRLSwarm(t *testing.T) {
	dir := newFolder(t)
	putForeign(t, dir, "node_7", 3)
	putText(t, dir, "rollouts/round_3/stage_0/half.json", foreignText[:200])
	putText(t, dir, "rollouts/round_3/stage_0/forged.json", fmt.Sprintf(foreignText, "node_7", 3, "1"))
	putText(t, dir, "rollouts/round_3/stage_0/wrong.json", `{"peer_id":"wrong","round":3,"rollouts":[1]}`)
	putText(t, dir, "rollouts/round_3/stage_0/other.json", fmt.Sprintf(foreignText, "other", 4, "1"))
	ours, reader := open(t, Options{Dir: dir, Run: testRun, Node: "ours"}), open(t, Options{Dir: dir, Run: testRun, Node: "reader"})
	share(t, ours, 3)
	got, err := reader.Gather(t.Context(), 3, []string{"node_7", "ours", "half", "forged", "wrong", "other"}, exchange.Barrier{})
	require.NoError(t, err)
	require.Equal(t, exchange.Rollout{
		Question: "What is 2 + 2? ü", Answer: pointer("4"),
		Metadata:    json.RawMessage(`{"source_dataset":"basic_arithmetic","source_index":3,"score":null,"dataset_index":3,"split":"train"}`),
		Completions: []exchange.Completion{{Text: "4", Terminated: true}, {Text: "NaN <answer>5</answer>", Terminated: true}},
	}, got[0].Rollouts[0])
	require.NotNil(t, got[1])
	require.Nil(t, got[2])
	for _, r := range got[3:] {
		require.NotEmpty(t, r.Rejected)
		require.Empty(t, r.Rollouts)
	}
}

func pointer(s string) *string { return &s }

// Without a barrier, the newest rounds of rl-swarm's nodes count as they arrive.
func TestRecentFromPredecessor(t *testing.T) {
	dir := newFolder(t)
	putForeign(t, dir, "node_7", 0)
	reader := open(t, Options{Dir: dir, Run: testRun, Node: "reader"})
	share(t, reader, 0)
	window := exchange.Window{Round: 0, Staleness: 2, Peers: []string{"node_7"}, Limit: 8}
	_, err := reader.Recent(t.Context(), window)
	require.NoError(t, err)
	putForeign(t, dir, "node_7", 1)
	putForeign(t, dir, "node_7", 2)
	got, err := reader.Recent(t.Context(), window)
	require.NoError(t, err)
	require.Equal(t, 2, got[len(got)-1].Round)
	require.Empty(t, got[len(got)-1].Rejected)
}

// With Compat, the files meet the conditions in rl-swarm's code, byte for byte.
func TestCompatFiles(t *testing.T) {
	dir := newFolder(t)
	a := open(t, Options{Dir: dir, Run: testRun, Node: "node_0", Compat: true})
	share(t, a, 0)
	share(t, a, 1)
	var file struct {
		PeerID   string `json:"peer_id"`
		Round    int    `json:"round"`
		Stage    int    `json:"stage"`
		Rollouts map[string][]struct {
			WorldState struct {
				Environment struct {
					Question string         `json:"question"`
					Answer   string         `json:"answer"`
					Metadata map[string]any `json:"metadata"`
				} `json:"environment_states"`
			} `json:"world_state"`
			Actions []string `json:"actions"`
		} `json:"rollouts"`
	}
	readText(t, dir, "rollouts/round_1/stage_0/node_0.json", &file)
	require.Equal(t, "node_0", file.PeerID)
	require.Equal(t, 1, file.Round)
	payload := file.Rollouts[batchID(batchOf("node_0", 1, "1").Rollouts[0].Question)]
	require.Len(t, payload, 1)
	require.Equal(t, []string{"<answer>42</answer>", "?"}, payload[0].Actions)
	require.Equal(t, "42", payload[0].WorldState.Environment.Answer)
	require.Equal(t, "basic_arithmetic", payload[0].WorldState.Environment.Metadata["source_dataset"])
	var state, peer map[string]any
	readText(t, dir, "state/current_state.json", &state)
	require.Equal(t, 1.0, state["round"])
	require.Equal(t, 0.0, state["stage"])
	readText(t, dir, "peers/node_0.json", &peer)
	require.Equal(t, "worker", peer["node_role"])

	// Swarm never reads its own copies as another node's, and its own nodes are not foreign.
	reader := open(t, Options{Dir: dir, Run: testRun, Node: "reader"})
	for _, name := range []string{"00000000"} {
		require.NoError(t, os.RemoveAll(filepath.Join(dir, base, runPath(testRun), rolloutsPart, name)))
	}
	require.Nil(t, lookNow(t, reader, 1, "node_0"))
	putForeign(t, dir, "node_7", 1)
	putText(t, dir, "peers/node_8.json", `{"peer_id": "node_8", "registered_at": 1.5, "node_role": "worker"}`)
	putText(t, dir, "peers/boss.json", `{"peer_id": "boss", "registered_at": 1.5, "node_role": "coordinator"}`)
	putText(t, dir, "peers/a b.json", `{"peer_id": "a b", "registered_at": 1.5, "node_role": "worker"}`)
	ids, err := Foreign(dir, testRun)
	require.NoError(t, err)
	require.Equal(t, []string{"node_7", "node_8"}, ids)
	_, err = Open(Options{Dir: dir, Run: testRun, Node: "node_8", Compat: true})
	require.ErrorContains(t, err, "an rl-swarm node is registered as node_8")
	putText(t, dir, "state/current_state.json", `{"round": 9, "stage": 0, "updated_by": "coordinator"}`)
	share(t, a, 2)
	readText(t, dir, "state/current_state.json", &state)
	require.Equal(t, 9.0, state["round"], "a coordinator of its own leads")
}

func readText(t *testing.T, dir, name string, into any) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, name))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, into))
}

// rl-swarm identifies a question by its MD5 as a number. The expected value is Python's int(hashlib.md5(b"What is 6 *
// 7?").hexdigest(), 16).
func TestBatchID(t *testing.T) {
	require.Equal(t, pythonBatchID, batchID("What is 6 * 7?"))
}

const pythonBatchID = "128969379550556901239796274473776878152"
