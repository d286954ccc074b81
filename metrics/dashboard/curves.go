package dashboard

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/stats"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// curves caches the values of curves, so that a request for a running run reads only new rounds.
type curves struct {
	mu     sync.Mutex
	series map[seriesKey]*series
	used   int64 // number of requests, orders the entries by last use
}

type seriesKey struct{ run, metric string }

// series is a metric of a run's rounds, by round and node.
type series struct {
	mu      sync.Mutex // held during an update
	history string     // known.history when redone was set
	redone  int        // rounds up to this one may have been replaced since
	values  []store.RoundValue
	length  atomic.Int64 // length of values, readable without mu
	used    int64
}

const (
	seriesKept = 512       // maximum number of series
	valuesKept = 1_000_000 // maximum sum over all series; some 60 MB
	lookBack   = 64        // rounds that are reread with new ones, because nodes are not all in the same round
)

func newCurves() *curves { return &curves{series: map[seriesKey]*series{}} }

// get returns the series of a key. It evicts the least recently used series while there are too many series or values.
func (c *curves) get(key seriesKey) *series {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.used++
	s := c.series[key]
	if s == nil {
		s = &series{}
		c.series[key] = s
	}
	s.used = c.used
	for len(c.series) > seriesKept || len(c.series) > 1 && c.values() > valuesKept {
		oldest := key
		for k, x := range c.series {
			if x.used < c.series[oldest].used {
				oldest = k
			}
		}
		delete(c.series, oldest)
	}
	return s
}

func (c *curves) values() int64 {
	var n int64
	for _, s := range c.series {
		n += s.length.Load()
	}
	return n
}

// refresh reads new rounds and returns all values. The caller must not change the result.
func (s *series) refresh(ctx context.Context, reader *store.Reader, k *known, metric string) ([]store.RoundValue, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if history := k.history(); s.history != history || len(s.values) == 0 {
		s.history, s.redone = history, k.frontier()
		return s.read(ctx, reader, k, metric, 0)
	}
	if k.behind(s.redone) {
		return s.read(ctx, reader, k, metric, 0)
	}
	values, err := s.read(ctx, reader, k, metric, max(0, s.values[len(s.values)-1].Round-lookBack))
	if err == nil && len(values) < k.totals.NodeRounds { // a node that is far behind finished a round
		return s.read(ctx, reader, k, metric, 0)
	}
	return values, err
}

// read replaces the cached rounds from a round on.
func (s *series) read(ctx context.Context, reader *store.Reader, k *known, metric string, from int) ([]store.RoundValue, error) {
	news, err := reader.RoundValues(ctx, k.totals.Run.Run, metric, from)
	if err != nil {
		return nil, err
	}
	at, _ := slices.BinarySearchFunc(s.values, from, func(v store.RoundValue, round int) int { return v.Round - round })
	s.values = append(s.values[:at:at], news...)
	s.length.Store(int64(len(s.values)))
	return s.values, nil
}

// frontier returns the highest round that any node has finished or is working on.
func (k *known) frontier() int {
	highest := 0
	for _, n := range k.snapshot.Nodes {
		highest = max(highest, n.LastRound, n.WorkingRound)
	}
	return highest
}

// behind reports whether a present node may still finish a round up to the given one.
func (k *known) behind(round int) bool {
	for _, n := range k.snapshot.Nodes {
		if n.There() && n.State != event.StateDone && max(n.WorkingRound, n.From) <= round {
			return true
		}
	}
	return false
}

// history identifies the state that decides which recorded rounds may change. Nodes that restart from a checkpoint
// repeat rounds.
func (k *known) history() string {
	return fmt.Sprint(k.totals.Attempts, k.totals.Restarts, k.totals.ReplayedRounds, k.totals.Started)
}

// stamp changes with every recorded round.
func (k *known) stamp() string {
	return fmt.Sprint(k.history(), " ", k.totals.NodeRounds, k.totals.CumulativeReward, k.status.State)
}

// Limits of a curve.
const (
	maxWindow = 1_000_000
	maxPoints = 5000
)

func (s *Server) getCurve(ctx context.Context, r *http.Request) (any, error) {
	p := readParams(r)
	metric := p.name("metric")
	o := stats.CurveOptions{Window: p.whole("window", stats.PaperWindow, 1, maxWindow), Points: p.whole("points", 600, 0, maxPoints)}
	if metric == "" {
		metric = "reward"
	}
	if o.Points > 0 && o.Points < 4 {
		p.fail(badRequest("bad points %d: allowed: 0 for all, or 4 to %d", o.Points, maxPoints))
	}
	if !slices.Contains(event.MetricNames(), metric) {
		p.fail(badRequest("bad metric %.40q: allowed: %s", metric, strings.Join(event.MetricNames(), ", ")))
	}
	if err := p.done(); err != nil {
		return nil, err
	}
	k, err := s.run(ctx, r)
	if err != nil {
		return nil, err
	}
	return s.cached(fmt.Sprintf("curve %s %s %d %d", k.totals.Run.Run, metric, o.Window, o.Points), k.stamp(), func() (any, error) {
		reader, err := s.db.open(ctx)
		if err != nil {
			return nil, err
		}
		values, err := s.curves.get(seriesKey{k.totals.Run.Run, metric}).refresh(ctx, reader, k, metric)
		if err != nil {
			return nil, err
		}
		return stats.NewCurve(k.totals.Run, metric, values, o), nil
	})
}
