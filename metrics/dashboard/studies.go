package dashboard

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/sapo-swarm/swarm/metrics/query"
	"github.com/sapo-swarm/swarm/metrics/stats"
	"github.com/sapo-swarm/swarm/metrics/store"
	"github.com/sapo-swarm/swarm/metrics/wording"
)

// Studies returns, for each study with recorded runs, the options that compare these runs.
type Studies func(runs []store.Run) ([]stats.CompareOptions, error)

// studiesDocument is the document of api/studies: the studies with recorded runs, and the verdict of one of them.
type studiesDocument struct {
	Studies []studyName   `json:"studies"` // the one with the newest run first
	Axes    []string      `json:"axes"`    // values of per
	Study   *stats.Study  `json:"study"`   // as in compare --study -o json; null: no run belongs to a study
	Arms    wording.Table `json:"arms"`
	Per     wording.Table `json:"per"` // pass@1 by cost; without rows if another measure decides
}

type studyName struct {
	Name  string `json:"name"`
	Model string `json:"model"` // empty: the study fixes its models
}

func (s *Server) getStudies(ctx context.Context, r *http.Request) (any, error) {
	p := readParams(r)
	name, model, per := p.name("study"), p.name("model"), p.oneOf("per", stats.AxisNames()...)
	if err := p.done(); err != nil {
		return nil, err
	}
	runs, err := s.board.choose(ctx, nil, nil)
	if err != nil {
		return nil, err
	}
	// A verdict counts only finished runs, and lists the states of the others.
	var stamp strings.Builder
	for _, k := range runs {
		fmt.Fprint(&stamp, k.totals.Run.Run, " ", k.status.State)
		if k.totals.State == store.RunDone {
			fmt.Fprint(&stamp, k.stamp(), k.eval)
		}
		stamp.WriteByte(';')
	}
	return s.cached("studies "+r.URL.Query().Encode(), stamp.String(), func() (any, error) {
		return s.studies(ctx, runs, name, model, per)
	})
}

func (s *Server) studies(ctx context.Context, runs []*known, name, model, per string) (any, error) {
	d := studiesDocument{Studies: []studyName{}, Axes: stats.AxisNames()}
	found, err := s.studiesOf(runs)
	if err != nil {
		return nil, err
	}
	chosen := -1
	for i, o := range found {
		d.Studies = append(d.Studies, studyName{o.Study.Name, o.Study.Model})
		if chosen < 0 && (name == "" || name == o.Study.Name) && (model == "" || model == o.Study.Model) {
			chosen = i
		}
	}
	switch {
	case chosen < 0 && name+model != "":
		return nil, missing("no run of study %.80q is recorded", strings.TrimSpace(name+" "+model))
	case chosen < 0:
		return d, nil
	}
	o := query.CompareOptions{CompareOptions: found[chosen], Alive: s.alive}
	switch {
	case per == stats.PerRounds:
	case o.Measure == stats.MeasurePass:
		o.Per = per
	default:
		return nil, badRequest("bad per %q: allowed: %s, because study %s is not decided by held-out pass@1", per, stats.PerRounds, o.Study.Name)
	}
	o.Bootstrap, o.Questions = true, true
	reader, err := s.db.open(ctx)
	if err != nil {
		return nil, err
	}
	c, err := query.Compare(ctx, reader, o)
	if err != nil {
		return nil, err
	}
	d.Study, d.Arms, d.Per = c.Study, wording.ArmTable(c.Study), wording.PerTable(c.Study.Per)
	return d, nil
}

// studiesOf returns the studies of runs, which are in order of their start: the one with the newest run first.
func (s *Server) studiesOf(runs []*known) ([]stats.CompareOptions, error) {
	if s.options.Studies == nil {
		return nil, nil
	}
	recorded, newest := make([]store.Run, len(runs)), map[string]int{}
	for i, k := range runs {
		recorded[i], newest[k.totals.Experiment] = k.totals.Run, i
	}
	found, err := s.options.Studies(recorded)
	last := func(o stats.CompareOptions) (last int) {
		for _, experiment := range o.Study.Experiments() {
			last = max(last, newest[experiment])
		}
		return last
	}
	slices.SortStableFunc(found, func(a, b stats.CompareOptions) int { return last(b) - last(a) })
	return found, err
}
