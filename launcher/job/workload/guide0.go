package workload

import "github.com/sapo-swarm/swarm/configs"

// RecommendedBatch returns guide 0's batch size for a card: (total - 2 GB) / (1.5 GB x 2.5), at least 1; 0 if the
// total is unknown. swarm tune --workload rl-swarm computes the same value.
func RecommendedBatch(total int64) int {
	if total <= 0 {
		return 0
	}
	profile, err := configs.LoadWorkload("rl-swarm")
	if err != nil {
		return 0 // built-in profiles are tested
	}
	r, err := Recommend(profile, Request{GPUMemory: total})
	if err != nil {
		return 0
	}
	return r.Batch
}
