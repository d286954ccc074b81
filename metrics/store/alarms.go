package store

import (
	"context"
	"database/sql"

	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/store/sqlite"
)

// Alarm is one alarm of a run.
type Alarm struct {
	event.Alarm
	Time   float64 // Unix seconds
	Advice string  // what to try
}

// Alarms returns a run's alarms, oldest first.
func (r *Reader) Alarms(ctx context.Context, run string) ([]Alarm, error) {
	alarms, err := alarmsOf(ctx, r.db, run)
	return alarms, sqlite.Explain(r.path, err)
}

func alarmsOf(ctx context.Context, db sqlite.Rows, run string) ([]Alarm, error) {
	var alarms []Alarm
	err := sqlite.Query(ctx, db, func(rows *sql.Rows) error {
		var x Alarm
		var detail string
		if err := rows.Scan(&x.Time, &x.Advice, &detail); err != nil {
			return err
		}
		e := event.Event{Type: event.TypeAlarm}
		if err := addDetail(&e, detail); err != nil {
			return err
		}
		x.Alarm = *e.Alarm
		alarms = append(alarms, x)
		return nil
	}, `SELECT time, message, detail FROM events WHERE run = ? AND type = ? ORDER BY id`, run, string(event.TypeAlarm))
	return alarms, err
}
