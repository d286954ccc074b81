// Package plan decides what runs where on this host, and why. It reads the GPUs and the memory, resolves the
// configuration, and asks launcher/fit. Its input are the flags as typed. It must not import packages that execute a
// plan.
package plan

import (
	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/launcher/fit"
	"github.com/sapo-swarm/swarm/launcher/gpu"
)

// Planned is an experiment, ready to be put on this host.
type Planned struct {
	Config   configs.Config
	Model    configs.Model
	Models   []configs.Model // of a swarm of different ones each once, Model first
	Host     gpu.Host
	Plan     fit.Plan
	Warnings []string
	Notes    []string // what a user may want to know of a new run's algorithm, one line each
	Trainer  Trainer
	Decided  bool  // Config's precision was auto, and is what this host makes of it
	Turn     *Turn // held since the decision, where the plan had to wait for a GPU; until the nodes have loaded

	auto auto // what decideSharing has decided
}

// Asked is the configuration as it was asked for.
func (p Planned) Asked() configs.Config {
	c := p.Config
	if p.Decided {
		c.Precision = "auto"
	}
	if p.auto.correction {
		c.ExternalCorrection = configs.CorrectionAuto
	}
	if p.auto.filter {
		c.ExternalFilter = configs.FilterAuto
	}
	return c
}
