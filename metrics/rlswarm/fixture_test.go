package rlswarm

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// rlswarm writes folders in the format of rl-swarm (its manager.py, gdrive_logger.py, gdrive_coordinator.py and
// progress_tracker.py). node_0 coordinates, the others train. my_reward is logged twice per round, cumulative_reward in
// two files.
type rlswarm struct {
	dir                      string
	workers, rounds, planned int
	i, j, g                  int
	adaptive                 bool
	sum                      func(node, round int) float64 // sum over I·G completions
}

// example returns three workers of 4/4 with 5 finished rounds.
func example(t *testing.T) rlswarm {
	return rlswarm{dir: filepath.Join(t.TempDir(), "sapo_gpt2_config2_4loc4ext"), workers: 3, rounds: 5, planned: 5, i: 4, j: 4, g: 8,
		sum: func(node, round int) float64 { return float64(node) + 0.5*float64(round) }}
}

const began = 1763545173.25

func (x rlswarm) write(t *testing.T) string {
	t.Helper()
	put(t, x.dir, "config.yaml", fmt.Sprintf("training.max_round: %d\ntraining.num_generations: %d\ntraining.num_train_samples: %d\n"+
		"training.num_transplant_trees: %d\ntraining.seed: 7\n", x.planned, x.g, x.i, x.j))
	put(t, x.dir, "state/current_state.json",
		fmt.Sprintf(`{"round": %d, "stage": 0, "updated_at": %f, "updated_by": "coordinator"}`, x.planned, began+9999))
	for n := range x.workers + 1 {
		role := "worker"
		if n == 0 {
			role = "coordinator"
		}
		id := fmt.Sprint("node_", n)
		put(t, x.dir, "peers/"+id+".json", dict(t, "peer_id", id, "registered_at", began+10, "node_role", role))
		put(t, x.dir, "progress_"+id+".json", dict(t, "timestamp", began, "elapsed_seconds", 1e-06, "event", "training_started", "node_id", id)+
			dict(t, "timestamp", began+500, "event", "training_complete", "total_rounds", x.planned, "node_id", id))
		put(t, x.dir, "logs/"+id+"/stdout.log", "noise\n")
		if n > 0 {
			x.writeNode(t, n, id)
		}
	}
	return x.dir
}

func (x rlswarm) writeNode(t *testing.T, n int, id string) {
	log, cumulative, total := "", "", 0.0
	for round := range x.rounds {
		at := began + 60*float64(round+1) + float64(n)
		sum := x.sum(n, round)
		total += sum
		head := []any{"timestamp", at, "round", round, "stage", 0, "node_id", id, "experiment", filepath.Base(x.dir)}
		mine := dict(t, append(head, "my_reward", sum, "total_agents", 1, "peer_id", id, "mean_reward", sum, "std_reward", 0.0, "my_rank", 1)...)
		log += mine
		log += dict(t, append(head, "cumulative_reward", total, "average_reward_per_round", total/float64(round+1), "is_cumulative_metric", true)...)
		log += dict(t, append(head, "stage_reward", sum, "num_samples", x.i*x.g, "avg_reward_per_sample", sum/float64(x.i*x.g), "peer_id", id)...)
		log += mine
		if x.adaptive {
			log += dict(t, "timestamp", at, "round", round+1, "stage", 0, "node_id", id, "adaptive_I", x.i, "adaptive_J", round%3, "adaptive_baseline", sum)
		}
		cumulative += dict(t, "timestamp", at, "round", round, "peer_id", id, "cumulative_reward", total,
			"average_reward_per_round", total/float64(round+1))
		put(t, x.dir, fmt.Sprintf("rewards/round_%d/stage_0/%s.json", round, id),
			dict(t, "round", round, "stage", 0, "reward", sum, "peer_id", id, "submitted_at", at))
		if round == 0 {
			put(t, x.dir, "rollouts/round_0/stage_0/"+id+".json", x.rollouts(t, id))
		}
	}
	put(t, x.dir, "logs/"+id+"/metrics.jsonl", log)
	put(t, x.dir, "logs/"+id+"/cumulative_metrics.jsonl", cumulative)
}

// rollouts returns I batches of one question with G completions each.
func (x rlswarm) rollouts(t *testing.T, id string) string {
	batches := map[string]any{}
	for i := range x.i {
		actions := make([]string, x.g)
		world := map[string]any{"environment_states": map[string]any{"question": "?"}}
		batches[fmt.Sprint(1000+i)] = []any{map[string]any{"world_state": world, "actions": actions}}
	}
	return dict(t, "peer_id", id, "round", 0, "stage", 0, "timestamp", began, "rollouts", batches)
}

// dict formats a line of Python's json.dumps, with Python's words for non-finite numbers.
func dict(t *testing.T, pairs ...any) string {
	t.Helper()
	text := "{"
	for i := 0; i < len(pairs); i += 2 {
		if i > 0 {
			text += ", "
		}
		var value string
		if f, ok := pairs[i+1].(float64); ok && (math.IsNaN(f) || math.IsInf(f, 0)) {
			value = map[bool]string{true: "NaN", false: "Infinity"}[math.IsNaN(f)]
			if f < 0 {
				value = "-Infinity"
			}
		} else {
			raw, err := json.Marshal(pairs[i+1])
			require.NoError(t, err)
			value = string(raw)
		}
		text += fmt.Sprintf("%q: %s", pairs[i], value)
	}
	return text + "}\n"
}

func put(t *testing.T, dir, name, text string) {
	t.Helper()
	path := filepath.Join(dir, name)
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
}
