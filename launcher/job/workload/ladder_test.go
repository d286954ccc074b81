package workload

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sapo-swarm/swarm/configs"
)

// short writes a step as value:from>to, in the order of the profile.
func short(s Step) string {
	var parts []string
	for _, e := range s.Edits {
		parts = append(parts, e.Value+":"+e.From+">"+e.To)
	}
	return strings.Join(parts, " ")
}

func shorts(steps []Step) (lines []string) {
	for _, s := range steps {
		lines = append(lines, short(s))
	}
	return lines
}

// Guide 1's ladder in its order, from its author's values.
func TestVerlIsGuide1sLadder(t *testing.T) {
	w := load(t, "verl-grpo")
	all := []string{
		"train_batch_size:1024>512 ppo_mini_batch_size:256>128 ppo_micro_batch_size_per_gpu:32>16 param_offload:False>True optimizer_offload:False>True",
		"train_batch_size:512>256 ppo_mini_batch_size:128>64 ppo_micro_batch_size_per_gpu:16>8",
		"gpu_memory_utilization:0.6>0.4",
		"max_response_length:1024>512",
		"gres:gpu:4>gpu:8 n_gpus_per_node:4>8",
	}
	steps := Ladder(w, nil)
	require.Equal(t, all, shorts(steps))
	require.Equal(t, "run_grpo.sh:data.train_batch_size", steps[0].Edits[0].Place)
	require.Equal(t, "submit_grpo.slurm:#SBATCH --gres", steps[4].Edits[0].Place)
	require.Contains(t, steps[0].TradeOff, "30 to 50 %")
	require.Contains(t, steps[0].TradeOff, "convergence")

	// A training that has taken the first step continues with the second. After half a step, the other half remains.
	after := map[string]string{
		"train_batch_size": "512", "ppo_mini_batch_size": "128", "ppo_micro_batch_size_per_gpu": "16", "param_offload": "true", "optimizer_offload": "True",
	}
	require.Equal(t, all[1:], shorts(Ladder(w, after)))
	after["optimizer_offload"] = "False"
	require.Equal(t, append([]string{"optimizer_offload:False>True"}, all[1:]...), shorts(Ladder(w, after)))
	// At the end no step remains.
	require.Empty(t, Ladder(w, map[string]string{
		"train_batch_size": "64", "ppo_mini_batch_size": "16", "ppo_micro_batch_size_per_gpu": "1", "param_offload": "True", "optimizer_offload": "True",
		"gpu_memory_utilization": "0.40", "max_response_length": "256", "gres": "gpu:8", "n_gpus_per_node": "16",
	}))
}

// Guide 2's emergency: 45 and 5 become 22 and 10, then fewer negatives, in stage 01 only.
func TestNaicsIsGuide2sLadder(t *testing.T) {
	steps := Ladder(load(t, "naics-embedder"), nil)
	require.Equal(t, []string{
		"batch_size:45>22 accumulate_grad_batches:5>10", "batch_size:22>11 accumulate_grad_batches:10>20", "n_negatives:24>16",
	}, shorts(steps))
	require.Equal(t, "conf/text_curriculum/01_stage.yaml:n_negatives", steps[2].Edits[0].Place)
}

func TestOtherLadders(t *testing.T) {
	require.Equal(t, []string{"num_train_samples:4>1", "fp16:false>true", "gradient_accumulation_steps:4>8"},
		shorts(Ladder(load(t, "rl-swarm"), map[string]string{"num_train_samples": "4", "gradient_checkpointing": "true"})), "guide 0's")
	lora := shorts(Ladder(load(t, "lora-classifier"), nil))
	require.Equal(t, "batch_size:128>64 gradient_accumulation_steps:1>2", lora[0])
	require.Equal(t, []string{"lora_r:8>4", "num_workers:4>2", "device:cuda:0>cuda:1", "device:cuda:1>cpu num_workers:2>0"}, lora[3:], "guide 3's")
	// DESIGN.md, section 7: cache, micro-batch, checkpointing, offload, fewer nodes, CPU.
	var first []string
	for _, s := range Ladder(load(t, "sapo"), nil) {
		first = append(first, s.Edits[0].Value)
	}
	require.Equal(t, []string{
		"clear_cache_every_n_rounds", "micro_batch", "gradient_checkpointing", "optimizer_offload", "param_offload", "swarm_size", "cpu_fallback",
	}, slices.Compact(first))
}

func TestTheLeastBatchEndsItsStep(t *testing.T) {
	w := load(t, "lora-classifier")
	steps := Ladder(w, map[string]string{"batch_size": "6"})
	require.Equal(t, "batch_size:6>4 gradient_accumulation_steps:1>2", short(steps[0]))
	require.Equal(t, "Smaller LoRA rank", steps[1].Title, "no accumulation without a smaller batch")
	for _, odd := range []string{"auto", "", "-1", "1e300"} {
		for _, s := range Ladder(w, map[string]string{"batch_size": odd}) {
			require.NotContains(t, short(s), "NaN")
		}
	}
}

// For any values, a ladder ends, each of its edits changes something, and no batch grows.
func TestLadders(t *testing.T) {
	profiles := loadAll(t)
	rapid.Check(t, func(t *rapid.T) {
		w := profiles[rapid.SampledFrom(configs.Workloads()).Draw(t, "profile")]
		current := map[string]string{}
		for _, v := range w.Values {
			if rapid.Bool().Draw(t, v.Name+" is known") {
				current[v.Name] = rapid.OneOf(rapid.StringMatching(`[0-9]{1,4}`), rapid.SampledFrom([]string{"true", "False", "0.5", "auto", "gpu:2"})).Draw(t, v.Name)
			}
		}
		steps := Ladder(w, current)
		require.LessOrEqual(t, len(steps), 20*len(w.Ladder))
		for _, s := range steps {
			require.NotEmpty(t, s.Edits)
			for _, e := range s.Edits {
				require.NotEqual(t, e.From, e.To)
				v, _ := w.Value(e.Value)
				from, numeric := configs.Number(e.From)
				to, _ := configs.Number(e.To)
				if v.Role == configs.RoleBatch && numeric {
					require.Less(t, to, from)
				}
			}
		}
	})
}
