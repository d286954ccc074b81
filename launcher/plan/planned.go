// Package plan decides what runs where on this host, and why. It reads the GPUs and the memory, resolves the
// configuration, and asks launcher/fit. Its input is the flags as typed. It must not import packages that execute a
// plan.
package plan

import (
	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/launcher/fit"
	"github.com/sapo-swarm/swarm/launcher/gpu"
)

// Planned is an experiment with its plan for this host.
type Planned struct {
	Config   configs.Config
	Model    configs.Model
	Models   []configs.Model // each model of a mixed swarm once, Model first
	Host     gpu.Host
	Plan     fit.Plan
	Warnings []string
	Notes    []string // information about a new run's algorithm, one line each
	Trainer  Trainer
	Decided  bool  // Config's precision was auto and is resolved for this host
	Turn     *Turn // held from the decision until the nodes have loaded, if the plan waited for a GPU

	auto []bool // which of AutoKeys were auto
}

// Asked returns the configuration with auto restored where the program has decided.
func (p Planned) Asked() configs.Config {
	c := p.Config
	if p.Decided {
		c.Precision = "auto"
	}
	for i, was := range p.auto {
		if was {
			*AutoKeys[i].of(&c) = AutoKeys[i].auto
		}
	}
	return c
}
