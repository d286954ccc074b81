package plan

import (
	"fmt"

	"github.com/sapo-swarm/swarm/configs"
)

// auto records which keys were auto. A run records the resolved values.
type auto struct{ correction, filter, draws bool }

// resolveAuto resolves auto for a new run. hosts means that other hosts may join.
func (p *Planned) resolveAuto(hosts bool) {
	c := &p.Config
	p.auto = auto{c.ExternalCorrection == configs.CorrectionAuto, c.ExternalFilter == configs.FilterAuto, c.EvalDraws == configs.DrawsAuto}
	if p.auto.draws {
		c.EvalDraws = configs.DrawsNode
	}
	takes := c.MostExternal() > 0 && p.Trainer.Command == ""
	if p.auto.correction {
		c.ExternalCorrection = configs.CorrectionNone
		if takes {
			c.ExternalCorrection = configs.CorrectionImportance
		}
	}
	if p.auto.filter {
		c.ExternalFilter = configs.FilterNone
		if takes && hosts && c.Models == "" { // many rollouts of another model have low likelihood here
			c.ExternalFilter = configs.FilterLikelihood
		}
	}
	p.Notes = nil
	if p.auto.correction && takes {
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
	if asked.ExternalCorrection == configs.CorrectionAuto {
		asked.ExternalCorrection = run.ExternalCorrection
	}
	if asked.ExternalFilter == configs.FilterAuto {
		asked.ExternalFilter = run.ExternalFilter
	}
	if asked.EvalDraws == configs.DrawsAuto {
		asked.EvalDraws = run.EvalDraws
	}
	return asked
}
