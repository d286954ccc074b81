package store

import (
	"context"
	"database/sql"

	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/store/sqlite"
)

const insertDeviceSQL = `INSERT INTO devices (run, uuid, time, gpu, name, memory_total_bytes, memory_used_bytes, unattributed_bytes,
  utilization, power_watts, power_limit_watts, temperature_celsius) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)
ON CONFLICT DO UPDATE SET unattributed_bytes = CASE WHEN ?7 > memory_used_bytes THEN ?8 ELSE unattributed_bytes END,
  memory_used_bytes = max(memory_used_bytes, ?7), utilization = ?9, power_watts = ?10, power_limit_watts = ?11,
  temperature_celsius = ?12`

func (tx *transaction) device(e event.Event) error {
	d := e.Device
	slot := int64(e.Time) / tx.slot * tx.slot
	_, err := tx.exec(insertDeviceSQL, e.Run, d.UUID, slot, d.Index, d.Name, d.MemoryTotalBytes, d.MemoryUsedBytes, d.UnattributedBytes,
		told(d.Utilization), told(d.PowerWatts), told(d.PowerLimitWatts), told(d.TemperatureCelsius))
	return err
}

// told returns the value to store for a figure of a driver. -1 means that the driver does not report it.
func told(v float64) any {
	if v < 0 {
		return nil
	}
	return finite(v)
}

// DeviceSample is the state of a GPU in one time slot of a run.
type DeviceSample struct {
	Time float64 // start of the slot, Unix seconds
	event.Device
}

const deviceColumns = `time, uuid, gpu, name, memory_total_bytes, memory_used_bytes, unattributed_bytes, utilization, power_watts,
  power_limit_watts, temperature_celsius`

// Devices returns the samples of a run's GPUs from a time on, oldest first. -1 means that the driver did not report the
// figure.
func (r *Reader) Devices(ctx context.Context, run string, from float64) ([]DeviceSample, error) {
	return r.devices(ctx, `SELECT `+deviceColumns+` FROM devices WHERE run = ? AND time >= ? ORDER BY time, gpu`, run, from)
}

// The recursion steps from one UUID to the next by the key, so that the cost does not grow with the run's length.
const newestDevicesSQL = `WITH RECURSIVE gpus(id) AS (SELECT min(uuid) FROM devices WHERE run = ?1
  UNION ALL SELECT (SELECT min(uuid) FROM devices WHERE run = ?1 AND uuid > id) FROM gpus WHERE id IS NOT NULL)
SELECT ` + deviceColumns + ` FROM gpus CROSS JOIN devices ON run = ?1 AND uuid = id
  AND time = (SELECT max(time) FROM devices AS d WHERE d.run = ?1 AND d.uuid = id) ORDER BY gpu`

// NewestDevices returns the newest sample of each of a run's GPUs, by index. -1 means that the driver did not report
// the figure.
func (r *Reader) NewestDevices(ctx context.Context, run string) ([]DeviceSample, error) {
	return r.devices(ctx, newestDevicesSQL, run)
}

func (r *Reader) devices(ctx context.Context, q string, args ...any) ([]DeviceSample, error) {
	var samples []DeviceSample
	err := sqlite.Query(ctx, r.db, func(rows *sql.Rows) error {
		var s DeviceSample
		var figures [4]sql.NullFloat64
		err := rows.Scan(&s.Time, &s.UUID, &s.Index, &s.Name, &s.MemoryTotalBytes, &s.MemoryUsedBytes, &s.UnattributedBytes,
			&figures[0], &figures[1], &figures[2], &figures[3])
		for i, into := range []*float64{&s.Utilization, &s.PowerWatts, &s.PowerLimitWatts, &s.TemperatureCelsius} {
			*into = -1
			if figures[i].Valid {
				*into = figures[i].Float64
			}
		}
		samples = append(samples, s)
		return err
	}, q, args...)
	return samples, sqlite.Explain(r.path, err)
}
