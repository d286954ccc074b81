package plan

import (
	"fmt"

	"github.com/sapo-swarm/swarm/configs"
)

// auto are the keys of how others' rollouts are used that were left to the program. A run is stored with what they came
// to.
type auto struct{ correction, filter bool }

// decideSharing replaces auto by what a new run has. hosts says that other hosts may join.
func (p *Planned) decideSharing(hosts bool) {
	c := &p.Config
	p.auto = auto{c.ExternalCorrection == configs.CorrectionAuto, c.ExternalFilter == configs.FilterAuto}
	takes := c.MostExternal() > 0 && p.Trainer.Command == ""
	if p.auto.correction {
		c.ExternalCorrection = configs.CorrectionNone
		if takes {
			c.ExternalCorrection = configs.CorrectionImportance
		}
	}
	if p.auto.filter {
		c.ExternalFilter = configs.FilterNone
		if takes && hosts && c.Models == "" { // of another model's rollouts many are unlikely here
			c.ExternalFilter = configs.FilterLikelihood
		}
	}
	p.Notes = nil
	if p.auto.correction && takes {
		p.Notes = append(p.Notes, fmt.Sprintf(
			"Others' rollouts are weighed by importance ratios (external_correction %s). --paper trains as the paper does, without them.", c.ExternalCorrection))
	}
}

// Keep takes over from a run that goes on what was left to the program.
func (p *Planned) Keep(run configs.Config) {
	if p.auto.correction {
		p.Config.ExternalCorrection = run.ExternalCorrection
	}
	if p.auto.filter {
		p.Config.ExternalFilter = run.ExternalFilter
	}
	p.Notes = nil
}

// Keeping is a configuration as it was asked for, with what it leaves to the program as a run has it.
func Keeping(asked, run configs.Config) configs.Config {
	if asked.ExternalCorrection == configs.CorrectionAuto {
		asked.ExternalCorrection = run.ExternalCorrection
	}
	if asked.ExternalFilter == configs.FilterAuto {
		asked.ExternalFilter = run.ExternalFilter
	}
	return asked
}
