package store

import (
	"context"
	"database/sql"

	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/store/sqlite"
)

// AttemptCrashed is the state of an attempt whose coordinator died without recording an end. The next attempt sets it.
const AttemptCrashed = "crashed"

// Attempt is one period in which a coordinator ran a run.
type Attempt struct {
	Attempt int     // from 1
	Started float64 // Unix seconds
	Seen    float64 // last heartbeat of the coordinator
	Ended   float64 // 0: it is running, or died without recording an end
	State   string  // running, crashed, or a final state of a run
	Message string
	Host    string
	PID     int
}

// ActiveSeconds returns the duration of the attempt. If it has no end, the duration is until its last heartbeat.
func (a Attempt) ActiveSeconds() float64 {
	end := a.Seen
	if a.Ended > 0 {
		end = a.Ended
	}
	return max(0, end-a.Started)
}

const (
	seenSQL = `UPDATE attempts SET seen = ?3 WHERE run = ?1 AND attempt = ?2 AND seen < ?3 AND ended IS NULL`

	// A repeated end of an earlier attempt must not end the newest one.
	endAttemptSQL = `UPDATE attempts SET state = ?3, message = ?4, ended = ?2, seen = ?2
WHERE run = ?1 AND attempt = (SELECT attempts FROM runs WHERE run = ?1) AND started <= ?2 AND (ended IS NULL OR ended < ?2)`
)

// beginAttempt adds an attempt to a run that already has a row, and returns its number.
func beginAttempt(ctx context.Context, tx *sql.Tx, r Run) (int, error) {
	_, err := tx.ExecContext(ctx, `UPDATE attempts SET state = ?, ended = seen WHERE run = ? AND ended IS NULL`, AttemptCrashed, r.Run)
	if err != nil {
		return 0, err
	}
	var attempt int
	err = tx.QueryRowContext(ctx, `INSERT INTO attempts (run, attempt, started, seen, state, host, pid)
SELECT run, attempts, ?2, ?2, 'running', ?3, ?4 FROM runs WHERE run = ?1 RETURNING attempt`, r.Run, r.Started, r.Host, r.PID).Scan(&attempt)
	return attempt, err
}

func (tx *transaction) ended(e event.Event) error {
	if _, err := tx.exec(endRunSQL, e.Run, e.Time, string(e.State), e.Message); err != nil {
		return err
	}
	_, err := tx.exec(endAttemptSQL, e.Run, e.Time, string(e.State), e.Message)
	return err
}

// Attempts returns the attempts of a run, oldest first.
func (r *Reader) Attempts(ctx context.Context, run string) ([]Attempt, error) {
	attempts, err := attemptsOf(ctx, r.db, run)
	return attempts, sqlite.Explain(r.path, err)
}

func attemptsOf(ctx context.Context, db sqlite.Rows, run string) ([]Attempt, error) {
	var attempts []Attempt
	err := sqlite.Query(ctx, db, func(rows *sql.Rows) error {
		var a Attempt
		err := rows.Scan(&a.Attempt, &a.Started, &a.Seen, &a.Ended, &a.State, &a.Message, &a.Host, &a.PID)
		attempts = append(attempts, a)
		return err
	}, `SELECT attempt, started, seen, coalesce(ended, 0.0), state, message, host, pid FROM attempts
WHERE run = ? ORDER BY attempt`, run)
	return attempts, err
}
