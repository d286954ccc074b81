package dashboard

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/query"
	"github.com/sapo-swarm/swarm/metrics/stats"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// cached returns the cached document of a key if its stamp matches, or creates it.
func (s *Server) cached(key, stamp string, make func() (any, error)) (any, error) {
	if body, ok := s.cache.get(key, stamp); ok {
		return body, nil
	}
	value, err := make()
	if err != nil {
		return nil, err
	}
	body, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	s.cache.put(key, stamp, body)
	return json.RawMessage(body), nil
}

// ofRun returns a document that stays valid until the run's next round or evaluation.
func (s *Server) ofRun(ctx context.Context, r *http.Request, p *params, key string, read func(*store.Reader, store.Run) (any, error)) (any, error) {
	if err := p.done(); err != nil {
		return nil, err
	}
	k, err := s.run(ctx, r)
	if err != nil {
		return nil, err
	}
	stamp := fmt.Sprint(k.stamp(), k.eval)
	return s.cached(key+" "+k.totals.Run.Run, stamp, func() (any, error) {
		reader, err := s.db.open(ctx)
		if err != nil {
			return nil, err
		}
		return read(reader, k.totals.Run)
	})
}

func (s *Server) getTasks(ctx context.Context, r *http.Request) (any, error) {
	p := readParams(r)
	steps := p.whole("steps", 20, 1, 500)
	return s.ofRun(ctx, r, p, fmt.Sprint("tasks ", steps), func(reader *store.Reader, run store.Run) (any, error) {
		return query.Tasks(ctx, reader, run, steps)
	})
}

func (s *Server) getEvaluations(ctx context.Context, r *http.Request) (any, error) {
	return s.ofRun(ctx, r, readParams(r), "evaluations", func(reader *store.Reader, run store.Run) (any, error) {
		return query.Evaluations(ctx, reader, run)
	})
}

// peer counts a node's use of one peer's rollouts over a run.
type peer struct {
	Node      string `json:"node"`
	Peer      string `json:"peer"`
	Available int    `json:"available"`
	Used      int    `json:"used"`
	Rejected  int    `json:"rejected"`
	Filtered  int    `json:"filtered"`
	Late      int    `json:"late"` // rounds in which nothing arrived in time
}

func (s *Server) getPeers(ctx context.Context, r *http.Request) (any, error) {
	return s.ofRun(ctx, r, readParams(r), "peers", func(reader *store.Reader, run store.Run) (any, error) {
		totals, err := reader.PeerTotals(ctx, run.Run)
		list := make([]peer, len(totals))
		for i, t := range totals {
			list[i] = peer{t.Node, t.Peer, t.Available, t.Used, t.Rejected, t.Filtered, t.Late}
		}
		return map[string][]peer{"peers": list}, err
	})
}

func (s *Server) getCompare(ctx context.Context, r *http.Request) (any, error) {
	p := readParams(r)
	o := query.CompareOptions{Names: p.names("names"), CompareOptions: stats.CompareOptions{
		Baseline: p.name("baseline"), By: p.oneOf("by", stats.ByExperiment, stats.ByConfig),
		Measure: p.measure(), Despite: p.names("despite"),
		Window: p.whole("window", 0, 1, maxWindow), Top: p.whole("top", 0, 1, 10_000), Pairs: p.oneOf("pairs", "0", "1") == "1",
		Tasks: p.oneOf("tasks", "0", "1") == "1", Bootstrap: true, Questions: true,
	}, Alive: s.alive}
	o.Target, _ = p.number("target")
	o.Min, o.HasMin = p.number("min")
	if len(o.Despite) > 100 {
		p.fail(badRequest("too many settings: %d, at most 100 are read", len(o.Despite)))
	}
	if len(o.Names) > 1000 {
		p.fail(badRequest("too many names: %d, at most 1000 are read", len(o.Names)))
	}
	if err := p.done(); err != nil {
		return nil, err
	}
	stamp, err := s.board.stamp(ctx)
	if err != nil {
		return nil, err
	}
	return s.cached("compare "+r.URL.Query().Encode(), stamp, func() (any, error) {
		reader, err := s.db.open(ctx)
		if err != nil {
			return nil, err
		}
		return query.Compare(ctx, reader, o)
	})
}

func (s *Server) alive(x store.Snapshot) bool { return s.options.Alive(x, event.Now()) }

// stamp changes with every round, evaluation or state of any run.
func (b *board) stamp(ctx context.Context) (string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.look(ctx); err != nil {
		return "", err
	}
	if b.state == databaseMissing {
		return "", store.ErrNoDatabase
	}
	var stamp strings.Builder
	for _, k := range b.runs {
		fmt.Fprint(&stamp, k.totals.Run.Run, " ", k.stamp(), k.eval, ";")
	}
	return stamp.String(), nil
}

// metric describes a metric with curves.
type metric struct {
	Name string     `json:"name"`
	Unit event.Axis `json:"unit"`
}

func (s *Server) getMetrics(_ context.Context, r *http.Request) (any, error) {
	list := []metric{}
	for _, m := range event.Metrics() {
		list = append(list, metric{m.Name, m.Axis})
	}
	return map[string]any{"metrics": list, "axes": stats.Axes()}, readParams(r).done()
}
