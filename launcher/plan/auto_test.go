package plan

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/configs"
)

// auto is resolved before anything is recorded, from J and from whether other hosts may join. A resumed run keeps
// its values.
func TestAutoIsResolvedInPlanning(t *testing.T) {
	for name, test := range map[string]struct {
		change             func(*Planned)
		hosts              bool
		correction, filter string
		told               bool
	}{
		"one host":         {nil, false, configs.CorrectionImportance, configs.FilterNone, true},
		"others may join":  {nil, true, configs.CorrectionImportance, configs.FilterLikelihood, true},
		"J = 0":            {func(p *Planned) { p.Config.NumTransplantTrees = 0 }, true, configs.CorrectionNone, configs.FilterNone, false},
		"different models": {func(p *Planned) { p.Config.Models = "nano,micro" }, true, configs.CorrectionImportance, configs.FilterNone, true},
		"own trainer":      {func(p *Planned) { p.Trainer.Command = "train" }, true, configs.CorrectionNone, configs.FilterNone, false},
		"given": {func(p *Planned) {
			p.Config.ExternalCorrection, p.Config.ExternalFilter = configs.CorrectionTapered, configs.FilterNone
		}, true, configs.CorrectionTapered, configs.FilterNone, false},
	} {
		p := Planned{Config: configs.Default()}
		p.Config.NumTransplantTrees = 4
		if test.change != nil {
			test.change(&p)
		}
		asked := p.Config
		p.resolveAuto(test.hosts)
		require.Equal(t, []string{test.correction, test.filter}, []string{p.Config.ExternalCorrection, p.Config.ExternalFilter}, name)
		require.Equal(t, configs.DrawsNode, p.Config.EvalDraws, name)
		if test.told {
			require.Equal(t, []string{"Importance ratios weigh others' rollouts (external_correction " + test.correction +
				"). --paper trains as published, without them."}, p.Notes, name)
		} else {
			require.Empty(t, p.Notes, name)
		}
		require.Equal(t, asked, p.Asked(), name)

		run := configs.Default()
		run.ExternalCorrection, run.ExternalFilter, run.EvalDraws = configs.CorrectionFTIS, configs.FilterNone, configs.DrawsShared
		kept := Keeping(p.Asked(), run)
		p.Keep(run)
		require.Equal(t, kept, p.Config, name)
		require.Equal(t, configs.DrawsShared, p.Config.EvalDraws, "a run keeps its question set")
		if name == "given" {
			asked.EvalDraws = configs.DrawsShared
			require.Equal(t, asked, p.Config)
		} else {
			require.Equal(t, configs.CorrectionFTIS, p.Config.ExternalCorrection, name)
		}
		require.Empty(t, p.Notes, name)
	}
}
