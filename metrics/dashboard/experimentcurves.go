package dashboard

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/query"
	"github.com/sapo-swarm/swarm/metrics/stats"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// maxCurveRuns bounds the runs of one request for experiments' curves.
const maxCurveRuns = 500

// getCurves returns curves by experiment. With names, it uses the runs of these experiments that a comparison counts.
// With runs, it uses all of the named runs.
func (s *Server) getCurves(ctx context.Context, r *http.Request) (any, error) {
	p := readParams(r)
	names, runs, metric := p.names("names"), p.names("runs"), p.name("metric")
	o := stats.CurveOptions{
		Window: p.whole("window", stats.PaperWindow, 1, maxWindow), Points: p.whole("points", 600, 0, maxPoints),
		Per: p.oneOf("per", stats.AxisNames()...), Single: p.oneOf("single", "0", "1") == "1",
	}
	if metric == "" {
		metric = "reward"
	}
	if !slices.Contains(event.MetricNames(), metric) {
		p.fail(badRequest("bad metric %.40q: allowed: %s", metric, strings.Join(event.MetricNames(), ", ")))
	}
	if o.Points > 0 && o.Points < 4 {
		p.fail(badRequest("bad points %d: allowed: 0 for all, or 4 to %d", o.Points, maxPoints))
	}
	if err := p.done(); err != nil {
		return nil, err
	}
	chosen, err := s.board.choose(ctx, names, runs)
	if err != nil {
		return nil, err
	}
	if len(chosen) > maxCurveRuns {
		return nil, badRequest("too many runs: %d, at most %d are drawn", len(chosen), maxCurveRuns)
	}
	var stamp strings.Builder
	for _, k := range chosen {
		stamp.WriteString(k.totals.Run.Run + " " + k.stamp() + ";")
	}
	return s.cached("curves "+r.URL.Query().Encode(), stamp.String(), func() (any, error) {
		return s.experimentCurves(ctx, chosen, len(runs) > 0, metric, o)
	})
}

func (s *Server) experimentCurves(ctx context.Context, chosen []*known, every bool, metric string, o stats.CurveOptions) (any, error) {
	reader, err := s.db.open(ctx)
	if err != nil {
		return nil, err
	}
	axis, err := stats.AxisOf(o.Per)
	if err != nil {
		return nil, err
	}
	byRun := map[string]*known{}
	var totals []store.Totals
	for _, k := range chosen {
		byRun[k.totals.Run.Run] = k
		totals = append(totals, k.totals)
	}
	curves := []stats.ExperimentCurve{}
	for _, group := range stats.Groups(totals, stats.CompareOptions{Key: query.ConfigKey, Differ: query.Differ()}, every) {
		var runs []stats.RunSeries
		for _, t := range group.Runs {
			k := byRun[t.Run.Run]
			one := stats.RunSeries{Run: t.Run, Attempts: k.snapshot.Attempts, More: map[string][]store.RoundValue{}}
			for _, name := range append(axis.Metrics(), metric) {
				if one.More[name], err = s.curves.get(seriesKey{t.Run.Run, name}).refresh(ctx, reader, k, name); err != nil {
					return nil, err
				}
			}
			one.Values = one.More[metric]
			runs = append(runs, one)
		}
		c, err := stats.NewExperimentCurve(group.Name, metric, runs, o)
		if err != nil {
			return nil, err
		}
		curves = append(curves, c)
	}
	return map[string]any{"experiments": curves}, nil
}

// choose returns the runs of those experiments, or those runs, oldest first. With neither it returns all runs.
func (b *board) choose(ctx context.Context, experiments, runs []string) ([]*known, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.look(ctx); err != nil {
		return nil, err
	}
	var out []*known
	for _, k := range b.runs {
		if len(experiments)+len(runs) == 0 || slices.Contains(experiments, k.totals.Experiment) || slices.Contains(runs, k.totals.Run.Run) {
			out = append(out, k)
		}
	}
	return out, nil
}
