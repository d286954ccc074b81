// Package prometheus exports the runs in a database to a Prometheus server: running ones, and for an hour the one that
// ended last, so that a scrape sees its end. docs/METRICS.md lists names, units and labels. Figures that metrics/stats
// computes equal those of `swarm status`.
package prometheus

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	prom "github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/sapo-swarm/swarm/metrics/stats"
	"github.com/sapo-swarm/swarm/metrics/stats/workers"
	"github.com/sapo-swarm/swarm/metrics/store"
)

const (
	maxRuns     = 32              // maximum exported running runs, newest first
	keepEnded   = 3600            // seconds for which an ended run is exported
	freshness   = time.Second     // how long a page serves all scrapes
	readTimeout = 5 * time.Second // limit for reading the database, per page

	rolloutsFreshness = 30 // seconds, for the counts of workers' rollouts
)

// Collector collects the metrics of a database's runs. It is safe for concurrent use.
type Collector struct {
	reader *store.Reader
	alive  func(store.Snapshot, float64) bool
	now    func() time.Time

	mu   sync.Mutex // held while a page is created, so that only one is created at a time
	page *page
	err  error
	made time.Time

	rollouts map[string]rollouts // by run
}

// NewCollector returns a collector for the database of reader. alive reports whether a run's coordinator is running at
// a Unix time. Only the caller can check that.
func NewCollector(reader *store.Reader, alive func(store.Snapshot, float64) bool) *Collector {
	return &Collector{reader: reader, alive: alive, now: time.Now, rollouts: map[string]rollouts{}}
}

// Handler serves the metrics in Prometheus' text formats. If the database cannot be read, it responds with status 500
// and the reason.
func Handler(reader *store.Reader, alive func(store.Snapshot, float64) bool) http.Handler {
	registry := prom.NewRegistry()
	registry.MustRegister(NewCollector(reader, alive))
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{
		MaxRequestsInFlight: 8, CoalesceGather: true, Timeout: 2 * readTimeout, EnableOpenMetrics: true,
	})
}

// Describe implements prometheus.Collector.
func (c *Collector) Describe(ch chan<- *prom.Desc) {
	for _, d := range described {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c *Collector) Collect(ch chan<- prom.Metric) {
	page, err := c.newest()
	if err != nil {
		ch <- prom.NewInvalidMetric(runInfo.desc, err)
		return
	}
	for _, m := range page.metrics {
		ch <- m
	}
}

// newest returns a page that is at most freshness old.
func (c *Collector) newest() (*page, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	if age := now.Sub(c.made); c.made.IsZero() || age < 0 || age >= freshness {
		c.page, c.err = c.read(now)
		c.made = now
	}
	return c.page, c.err
}

func (c *Collector) read(now time.Time) (*page, error) {
	ctx, cancel := context.WithTimeout(context.Background(), readTimeout)
	defer cancel()
	runs, err := c.reader.CurrentRuns(ctx, maxRuns)
	if err != nil {
		return nil, err
	}
	unix := float64(now.UnixNano()) / 1e9
	p := &page{seen: map[string]bool{}}
	var last *store.Snapshot // the last run that ended or crashed
	for _, run := range runs {
		s, err := c.reader.Snapshot(ctx, run)
		switch {
		case errors.Is(err, store.ErrNotFound):
			continue
		case err != nil:
			return nil, err
		case s.Run.State == store.RunRunning && c.alive(s, unix):
			if err := c.add(ctx, p, s, unix, true); err != nil {
				return nil, err
			}
		case last == nil || ended(s) > ended(*last):
			last = &s
		}
	}
	if last != nil && unix-ended(*last) < keepEnded {
		return p, c.add(ctx, p, *last, unix, false)
	}
	return p, nil
}

// add adds a run to the page.
func (c *Collector) add(ctx context.Context, p *page, s store.Snapshot, now float64, alive bool) error {
	x := current{run: s.Run, status: stats.NewStatus(s, now, alive)}
	var err error
	if x.steps, err = c.reader.MemorySteps(ctx, s.Run.Run); err != nil {
		return err
	}
	if alive {
		devices, err := c.reader.NewestDevices(ctx, s.Run.Run)
		if err != nil {
			return err
		}
		for _, d := range devices {
			if now-d.Time < deviceFresh {
				x.devices = append(x.devices, d)
			}
		}
	}
	if x.workers, err = c.workers(ctx, s, now); err != nil {
		return err
	}
	p.addRun(x)
	return nil
}

// workers describes a run's workers. It rereads the counts of their rollouts only after rolloutsFreshness, because that
// reads every round of the run.
func (c *Collector) workers(ctx context.Context, s store.Snapshot, now float64) ([]workers.Row, error) {
	if len(s.Workers) == 0 {
		return nil, nil
	}
	known, ok := c.rollouts[s.Run.Run]
	if age := now - known.read; !ok || age < 0 || age >= rolloutsFreshness {
		totals, err := c.reader.WorkerRollouts(ctx, s.Run.Run)
		if err != nil {
			return nil, err
		}
		known = rollouts{totals, now}
		if len(c.rollouts) > 2*maxRuns {
			clear(c.rollouts)
		}
		c.rollouts[s.Run.Run] = known
	}
	return workers.Rows(s, known.totals), nil
}

// rollouts holds the counts of each worker's rollouts in a run, as read at a Unix time.
type rollouts struct {
	totals []store.WorkerRollouts
	read   float64
}

// ended returns when a run ended or was last seen alive, in Unix seconds.
func ended(s store.Snapshot) float64 {
	if s.Run.Ended > 0 {
		return s.Run.Ended
	}
	seen := s.Run.Resumed
	for _, a := range s.Attempts {
		seen = max(seen, a.Seen)
	}
	return seen
}
