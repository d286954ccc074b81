package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/store/sqlite"
)

// maxOutboxes bounds the remembered outboxes of a worker to those used most recently. A worker that loses its disk
// starts a new outbox.
const maxOutboxes = 64

// ErrGap reports a delivery that would leave a gap after the recorded events.
var ErrGap = errors.New("events are missing before this delivery")

// Delivery is a sequence of a worker's events, numbered within its outbox.
type Delivery struct {
	Run    string
	Worker string
	Outbox string        // identifies the outbox; if it is lost, the worker starts one with a new name
	First  int64         // number of the first event, counted from 1
	Events []event.Event // Run and Worker need not be set; an event without a Type was dropped on the way, and only its number counts
}

// last returns the number of the newest event.
func (d Delivery) last() int64 { return d.First + int64(len(d.Events)) - 1 }

// Deliver writes a worker's events and the number of the newest in one transaction, together with other queued events.
// It returns after the data survives a power cut. The result is the number up to which the database has the outbox's
// events. Deliver skips events that are already recorded, so that overlaps and repetitions do not change the rows. A
// delivery that leaves a gap fails with a wrapped ErrGap that names the number.
//
// An event that cannot be stored or that belongs to another worker's node counts as delivered, because a repetition
// would not help. Options.Warn receives the first such event of each delivery. A node without a row gets a row that
// assigns it to this worker.
func (s *Store) Deliver(ctx context.Context, d Delivery) (acked int64, err error) {
	if d.Worker == "" || d.Outbox == "" || d.First < 1 {
		return 0, fmt.Errorf("deliver: a worker, an outbox and a first number from 1 are needed: %q, %q, %d", d.Worker, d.Outbox, d.First)
	}
	if !s.knows(d.Run) {
		return 0, fmt.Errorf("deliver events of %s: run %q was never started here", d.Worker, d.Run)
	}
	answer := make(chan outcome, 1)
	if err := s.send(ctx, &item{delivery: &delivery{Delivery: d, answer: answer}}); err != nil {
		return 0, err
	}
	select {
	case out := <-answer:
		return out.acked, out.err
	case <-ctx.Done():
		return 0, errors.Join(ctx.Err(), s.Err())
	}
}

// delivery is a Delivery in the writer's queue.
type delivery struct {
	Delivery
	answer  chan<- outcome
	out     outcome // of the newest attempt
	refused error   // first rejected event of the newest attempt
}

// outcome is the result of Deliver.
type outcome struct {
	acked int64
	err   error
}

const (
	ackedSQL = `SELECT acked FROM deliveries WHERE run = ? AND worker = ? AND outbox = ?`

	setAckedSQL = `INSERT INTO deliveries (run, worker, outbox, acked, time) VALUES (?1, ?2, ?3, ?4, ?5)
ON CONFLICT DO UPDATE SET acked = ?4, time = ?5`

	forgetOutboxesSQL = `DELETE FROM deliveries WHERE run = ?1 AND worker = ?2 AND outbox NOT IN
  (SELECT outbox FROM deliveries WHERE run = ?1 AND worker = ?2 ORDER BY time DESC, outbox LIMIT ?3)`

	ownerSQL = `SELECT worker FROM nodes WHERE run = ? AND node = ?`
)

// deliver writes the events of d that the database lacks. each applies one event.
func (tx *transaction) deliver(d *delivery, each func(event.Event) error) error {
	d.refused = nil
	var acked int64
	err := tx.statement(ackedSQL).QueryRow(d.Run, d.Worker, d.Outbox).Scan(&acked)
	isNew := errors.Is(err, sql.ErrNoRows)
	if err != nil && !isNew {
		return err
	}
	if d.First > acked+1 {
		d.out = outcome{acked, fmt.Errorf("%w: it begins with %d, but the newest recorded is %d", ErrGap, d.First, acked)}
		return nil
	}
	d.out = outcome{acked: max(acked, d.last())}
	if d.last() <= acked {
		return nil
	}
	for _, e := range d.Events[acked+1-d.First:] {
		if e.Type == "" {
			continue
		}
		e.Run, e.Worker = d.Run, d.Worker
		if err := tx.foreign(e); err != nil {
			d.refuse(e, err)
			continue
		}
		if err := each(e); err != nil {
			return err
		}
	}
	if _, err := tx.exec(setAckedSQL, d.Run, d.Worker, d.Outbox, d.last(), event.Now()); err != nil || !isNew {
		return err
	}
	_, err = tx.exec(forgetOutboxesSQL, d.Run, d.Worker, maxOutboxes)
	return err
}

// refuse records the first rejected event.
func (d *delivery) refuse(e event.Event, why error) {
	if d.refused == nil {
		d.refused = fmt.Errorf("%s event of %s %s, from worker %s, refused: %w", e.Type, e.Run, e.Node, e.Worker, why)
	}
}

// foreign returns the reason for rejecting a worker's event, or nil.
func (tx *transaction) foreign(e event.Event) error {
	switch e.Type {
	case event.TypeRunStarted, event.TypeRunEnded, event.TypeSummary, event.TypeJoin, event.TypeLeave, event.TypeWorker:
		return errors.New("only the coordinator records such events")
	case event.TypeDevice:
		return errors.New("only the coordinator's host records devices")
	}
	if err := check(e); err != nil || e.Node == "" {
		return err
	}
	owner, err := tx.owner(e)
	if err == nil && owner != e.Worker {
		return errors.New("the node belongs to another worker")
	}
	return err
}

// owner returns the worker that owns e's node. A node without a row belongs to the sender of e.
func (tx *transaction) owner(e event.Event) (string, error) {
	key := [2]string{e.Run, e.Node}
	if owner, ok := tx.owners[key]; ok {
		return owner, nil
	}
	var owner string
	err := tx.statement(ownerSQL).QueryRow(e.Run, e.Node).Scan(&owner)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return e.Worker, nil
	case err != nil:
		return "", err
	}
	tx.owners[key] = owner
	return owner, nil
}

// Delivered returns the number up to which the database has all events of a worker's outbox; 0: none.
func (r *Reader) Delivered(ctx context.Context, run, worker, outbox string) (int64, error) {
	if ok, err := r.has(ctx, schemaWorkers); err != nil || !ok {
		return 0, err
	}
	var acked int64
	err := sqlite.Query(ctx, r.db, func(rows *sql.Rows) error { return rows.Scan(&acked) }, ackedSQL, run, worker, outbox)
	return acked, sqlite.Explain(r.path, err)
}
