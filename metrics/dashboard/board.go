package dashboard

import (
	"context"
	"errors"
	"math"
	"reflect"
	"sync"
	"time"

	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/query"
	"github.com/sapo-swarm/swarm/metrics/stats"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// States of the database in API documents.
const (
	databaseReady    = "ready"
	databaseMissing  = "missing"  // nothing has run yet
	databaseUnusable = "unusable" // Problem says why
)

// present is the document of api/runs and of a `runs` event.
type present struct {
	Now      float64        `json:"now"` // Unix seconds
	Database string         `json:"database"`
	Problem  string         `json:"problem"`
	Version  string         `json:"version"`
	Full     bool           `json:"full"` // all runs are included; else only those that changed
	Runs     []stats.RunRow `json:"runs"` // oldest first
}

// board holds the current state of every run. It is the only reader that polls the database, on behalf of all watchers.
type board struct {
	db       *database
	alive    func(store.Snapshot, float64) bool
	version  string
	interval time.Duration

	mu        sync.Mutex
	state     string
	problem   string
	runs      []*known // oldest first
	byRun     map[string]*known
	mark      mark
	looked    time.Time // time of the last full poll
	watchers  map[*watcher]struct{}
	closed    bool
	woken     chan struct{} // signals that a watcher was added
	timelines map[string]*timeline
}

// known is the state of a run at its last poll. It is immutable except for event, which the board owns.
type known struct {
	totals   store.Totals
	snapshot store.Snapshot
	alive    bool
	status   stats.Status
	eval     store.EvalTotal
	row      stats.RunRow
	event    []byte // status as an event; nil: never sent
}

func newBoard(db *database, o Options) *board {
	return &board{
		db: db, alive: o.Alive, version: o.Version, interval: o.interval, state: databaseMissing,
		byRun: map[string]*known{}, watchers: map[*watcher]struct{}{}, woken: make(chan struct{}, 1), timelines: map[string]*timeline{},
	}
}

// settled is the time during which unchanged database files count as an unchanged database.
const settled = 5 * time.Second

// look updates the board and sends changes to every watcher. The caller must hold mu.
func (b *board) look(ctx context.Context) error {
	now := event.Now()
	mark := b.db.mark()
	if b.state == databaseReady && mark == b.mark && time.Since(b.looked) < settled && !b.died(now) {
		return nil
	}
	reader, err := b.db.open(ctx)
	if err == nil {
		err = b.read(ctx, reader, now)
	}
	if err != nil {
		return b.unreadable(ctx, err)
	}
	b.mark, b.looked = mark, time.Now()
	return nil
}

// died reports whether a coordinator died since the last poll.
func (b *board) died(now float64) bool {
	for _, k := range b.runs {
		if k.alive && !b.alive(k.snapshot, now) {
			return true
		}
	}
	return false
}

// unreadable records why the database cannot be read. A missing database is not an error.
func (b *board) unreadable(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	state, problem := databaseUnusable, explain(err).text
	if errors.Is(err, store.ErrNoDatabase) {
		state, problem, err = databaseMissing, "", nil
		b.runs, b.byRun, b.timelines = nil, map[string]*known{}, map[string]*timeline{}
	}
	if b.state != state || b.problem != problem {
		b.state, b.problem = state, problem
		b.tell(eventMessage("runs", "", b.present(b.runs, true)))
	}
	return err
}

// read reads the totals of every run, and the details of runs that may have changed.
func (b *board) read(ctx context.Context, reader *store.Reader, now float64) error {
	totals, err := reader.Runs(ctx, store.Filter{})
	if err != nil {
		return err
	}
	evals, err := reader.NewestEvals(ctx)
	if err != nil {
		return err
	}
	full := b.state != databaseReady || len(totals) < len(b.runs)
	b.state, b.problem = databaseReady, ""
	runs, byRun := make([]*known, 0, len(totals)), make(map[string]*known, len(totals))
	var changed, fresh []*known
	for _, t := range totals {
		k, news, err := b.readRun(ctx, reader, t, now)
		if err != nil {
			return err
		}
		if e := evals[t.Run.Run]; news || e != k.eval {
			next := *k // other goroutines may be reading k
			next.eval, next.row = e, stats.NewRunRow(t, k.status, e)
			if !reflect.DeepEqual(k.row, next.row) {
				changed = append(changed, &next)
			}
			k = &next
		}
		if news {
			fresh = append(fresh, k)
		}
		runs, byRun[t.Run.Run] = append(runs, k), k
	}
	b.runs, b.byRun = runs, byRun
	b.tellChanged(changed, fresh, full)
	return b.readTimelines(ctx, reader, now)
}

// readRun returns the current state of a run, and whether it changed.
func (b *board) readRun(ctx context.Context, reader *store.Reader, t store.Totals, now float64) (*known, bool, error) {
	k := b.byRun[t.Run.Run]
	if k != nil && !changedTotals(k.totals, t) {
		running := t.State == store.RunRunning
		alive := running && b.alive(k.snapshot, now)
		if alive == k.alive && !alive {
			return k, false, nil // it has ended, or its coordinator died before the last poll
		}
	}
	snapshot, err := reader.Snapshot(ctx, t.Run.Run)
	if err != nil {
		return nil, false, err
	}
	next := &known{totals: t, snapshot: snapshot}
	if k != nil {
		next.row, next.event = k.row, k.event
	}
	next.alive = snapshot.Run.State == store.RunRunning && b.alive(snapshot, now)
	next.status = query.Status(snapshot, now, next.alive)
	return next, true, nil
}

// changedTotals reports whether two states of one run differ. It ignores the documents that change only with a new
// attempt.
func changedTotals(a, b store.Totals) bool {
	return a.State != b.State || a.Attempts != b.Attempts || a.NodeRounds != b.NodeRounds || a.CumulativeReward != b.CumulativeReward ||
		a.Restarts != b.Restarts || a.ReplayedRounds != b.ReplayedRounds || a.ActiveSeconds != b.ActiveSeconds || a.Resumed != b.Resumed ||
		a.Ended != b.Ended || a.Message != b.Message || a.Rounds != b.Rounds || a.Nodes != b.Nodes
}

func (b *board) present(runs []*known, full bool) present {
	p := present{Now: event.Now(), Database: b.state, Problem: b.problem, Version: b.version, Full: full, Runs: make([]stats.RunRow, len(runs))}
	for i, k := range runs {
		p.Runs[i] = k.row
	}
	return p
}

// all returns the document of api/runs.
func (b *board) all(ctx context.Context) (present, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	err := b.look(ctx)
	if b.state == databaseUnusable && ctx.Err() == nil {
		err = nil // the document contains the error
	}
	return b.present(b.runs, true), err
}

// find returns the run with that key, else the newest run of that experiment.
func (b *board) find(ctx context.Context, name string) (*known, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.look(ctx); err != nil {
		return nil, err
	}
	if k := b.byRun[name]; k != nil {
		return k, nil
	}
	var newest *known
	resumed := math.Inf(-1)
	for _, k := range b.runs {
		if k.totals.Experiment == name && k.totals.Resumed >= resumed {
			newest, resumed = k, k.totals.Resumed
		}
	}
	switch {
	case newest != nil:
		return newest, nil
	case b.state == databaseMissing:
		return nil, store.ErrNoDatabase
	}
	return nil, missing("no run or experiment %.80q is recorded", name)
}
