package study

import (
	"context"
	"errors"
	"io"
	"strconv"

	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/launcher/plan"
)

// Host has the process's settings and streams for a sweep.
type Host struct {
	plan.Host
	Stdin        io.Reader
	Stdout       io.Writer
	Program      string // the program's name and its home, as this user types them
	Began        string // environment variable (NAME=VALUE) that passes the original command to a run
	EnsureModels func(ctx context.Context, p plan.Planned) (map[string]string, error)
}

// Options configure a sweep.
type Options struct {
	Plan       plan.Options
	Study      string   // name or file
	Grid       []string // KEY=VALUE,VALUE
	Seeds      string
	SeedsGiven bool
	NodesGiven bool
	Pilots     *Pilots // swarm tune; nil: swarm sweep

	explored []int64 // of the study
}

// sources returns the configurations of a sweep: the named ones, the arms of a grid, or the experiments of a study,
// restricted to names if there are any. Without --seeds, the study's number of seeds applies. The Judge is for
// studies only.
func (o *Options) sources(ctx context.Context, h Host, names []string) ([]Source, *Judge, error) {
	switch {
	case o.Study != "" && o.Grid != nil:
		return nil, nil, fail.Usage(errors.New("--grid and --study exclude each other"),
			"the key grid: in the study's file, or swarm sweep CONFIG --grid KEY=VALUE,VALUE")

	case o.Study == "":
		if err := refuseStudyFile(names); err != nil {
			return nil, nil, err
		}
	}
	if o.Pilots != nil {
		sources, err := o.rateSources(ctx, h, names[0])
		return sources, nil, err
	}
	if o.Grid != nil {
		sources, err := o.GridSources(h, names)
		return sources, nil, err
	}
	if o.Study == "" {
		return sourcesOf(names), nil, nil
	}
	study, err := Load(o.Study, &o.Plan.Config, o.NodesGiven)
	if err != nil {
		return nil, nil, err
	}
	o.explored = study.With(study.named).Explored
	if !o.SeedsGiven {
		o.Seeds = strconv.Itoa(study.With(study.named).Seeds)
	}
	judge, err := judgeOf(study)
	if err != nil {
		return nil, nil, err
	}
	sources, err := study.Sources(names...)
	return sources, judge, err
}
