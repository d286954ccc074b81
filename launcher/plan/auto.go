package plan

import (
	"fmt"

	"github.com/sapo-swarm/swarm/configs"
)

// AutoKey is a key whose value auto is resolved in planning. A run records the resolved value.
type AutoKey struct {
	Name    string
	auto    string
	of      func(*configs.Config) *string
	resolve func(p *Planned, hosts bool) string // the value for a new run. hosts: other hosts may join
}

// In returns the key's value in c.
func (k AutoKey) In(c configs.Config) string { return *k.of(&c) }

// AutoKeys are all such keys.
var AutoKeys = []AutoKey{
	{"external_correction", configs.CorrectionAuto, func(c *configs.Config) *string { return &c.ExternalCorrection },
		func(p *Planned, _ bool) string {
			if p.takes() {
				return configs.CorrectionImportance
			}
			return configs.CorrectionNone
		}},
	{"external_filter", configs.FilterAuto, func(c *configs.Config) *string { return &c.ExternalFilter },
		func(p *Planned, hosts bool) string {
			if p.takes() && hosts && p.Config.Models == "" { // many rollouts of another model have low likelihood here
				return configs.FilterLikelihood
			}
			return configs.FilterNone
		}},
	{"eval_draws", configs.DrawsAuto, func(c *configs.Config) *string { return &c.EvalDraws },
		func(*Planned, bool) string { return configs.DrawsNode }},
}

// takes says if the engine trains on others' rollouts.
func (p *Planned) takes() bool { return p.Config.MostExternal() > 0 && p.Trainer.Command == "" }

// resolveAuto resolves auto for a new run. hosts means that other hosts may join.
func (p *Planned) resolveAuto(hosts bool) {
	c := &p.Config
	p.auto = make([]bool, len(AutoKeys))
	for i, key := range AutoKeys {
		p.auto[i] = key.In(*c) == key.auto
		if p.auto[i] {
			*key.of(c) = key.resolve(p, hosts)
		}
	}
	p.Notes = nil
	if p.takes() && p.Asked().ExternalCorrection == configs.CorrectionAuto {
		p.Notes = append(p.Notes, fmt.Sprintf(
			"Importance ratios weigh others' rollouts (external_correction %s). --paper trains as published, without them.", c.ExternalCorrection))
	}
}

// Keep sets the keys that were auto to the values of the run to continue.
func (p *Planned) Keep(run configs.Config) {
	precision := p.Config.Precision // resolved for this host
	p.Config = Keeping(p.Asked(), run)
	p.Config.Precision = precision
	p.Notes = nil
}

// Keeping returns asked with its auto keys set to run's values.
func Keeping(asked, run configs.Config) configs.Config {
	for _, key := range AutoKeys {
		if value := key.of(&asked); *value == key.auto {
			*value = key.In(run)
		}
	}
	return asked
}
