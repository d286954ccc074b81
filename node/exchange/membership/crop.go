package membership

import (
	"os"
	"slices"

	"github.com/sapo-swarm/swarm/internal/files"
)

// crop keeps the outbox within its bound. It changes only segments from which Next has returned nothing, because the
// numbers of their events are not in use yet.
func (o *Outbox) crop() {
	if o.bytes > o.limit {
		if err := o.drop(0); err != nil {
			o.logger.Error("the outbox cannot be shortened", "error", err)
			return
		}
	}
	for o.bytes > o.limit {
		if !o.crowded {
			o.crowded = true
			o.logger.Warn("the outbox is full: measurements are dropped until the coordinator is reachable", "bytes", o.bytes)
		}
		if freed, err := o.cropOne(); err != nil || !freed {
			if err != nil {
				o.logger.Error("the outbox cannot be shortened", "error", err)
			}
			return
		}
	}
	if o.crowded && o.bytes < o.limit/2 {
		o.crowded = false
		o.logger.Warn("the outbox has space again", "measurements_left_out", o.dropped, "other_events_lost", o.lost)
	}
}

// cropOne removes the measurements from the oldest segment that has some, or drops the oldest segment.
func (o *Outbox) cropOne() (freed bool, err error) {
	oldest := -1
	for i, s := range o.segments[:len(o.segments)-1] {
		if s.id <= o.state.Served {
			continue
		}
		if !s.lean {
			return true, o.thin(i)
		}
		if oldest < 0 {
			oldest = i
		}
	}
	if oldest < 0 {
		return false, nil
	}
	o.lost += int64(o.segments[oldest].count)
	return true, o.remove(oldest)
}

// thin rewrites a segment without its measurements.
func (o *Outbox) thin(i int) error {
	s := o.segments[i]
	data, err := os.ReadFile(o.path(s.id))
	if err != nil {
		return err
	}
	var kept []byte
	count, all := 0, 0
	for _, raw := range parseSegment(data) {
		all++
		if !measurement(raw) {
			kept = appendLine(kept, count, raw)
			count++
		}
	}
	if count == 0 {
		o.dropped += int64(all)
		return o.remove(i)
	}
	if err := files.WriteSecret(o.path(s.id), kept); err != nil {
		return err
	}
	o.dropped += int64(all - count)
	o.bytes += int64(len(kept)) - s.bytes
	s.count, s.bytes, s.lean = count, int64(len(kept)), true
	return nil
}

func (o *Outbox) remove(i int) error {
	s := o.segments[i]
	if err := os.Remove(o.path(s.id)); err != nil {
		return err
	}
	o.bytes -= s.bytes
	o.segments = slices.Delete(o.segments, i, i+1)
	return nil
}
