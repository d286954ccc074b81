package plan

import (
	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/configs/resolve"
	"github.com/sapo-swarm/swarm/launcher/fit"
)

// NodeMemory is the estimated memory of one node with a model's default settings.
type NodeMemory struct {
	CUDA fit.Footprint `json:"cuda"` // of the GPU
	CPU  fit.Footprint `json:"cpu"`  // of the host, if it trains on the CPU
}

// NodeMemoryOf returns the least memory for which a plan places a node of the model: with as few sequences at a time as
// possible.
func NodeMemoryOf(m configs.Model) (NodeMemory, error) {
	c, _, _, err := resolve.Sources{FindModel: func(string) (configs.Model, error) { return m, nil }}.Config(&resolve.Flags{})
	if err != nil {
		return NodeMemory{}, err
	}
	s := FitSettings(c)
	return NodeMemory{CUDA: fit.Least(m, fit.DeviceCUDA, s), CPU: fit.Least(m, fit.DeviceCPU, s)}, nil
}
