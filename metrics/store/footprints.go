package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"

	"github.com/sapo-swarm/swarm/metrics/store/sqlite"
)

// FootprintKey identifies the conditions of a footprint. Settings is a JSON object; equal settings have equal text.
type FootprintKey struct {
	Model    string
	Settings string
	Torch    string
	GPU      string // name of the device, or cpu
}

// Footprint is a node's measured memory in bytes: Resident at all times, plus base + s × per-sequence bytes during a
// phase that processes s sequences at once.
type Footprint struct {
	FootprintKey
	Resident            int64
	GenerateBase        int64
	GeneratePerSequence int64
	UpdateBase          int64
	UpdatePerSequence   int64
	Profiled            float64 // Unix seconds
	Raised              float64 // when a run last exceeded the profile; 0: never
	Points              json.RawMessage
}

// SaveFootprint writes a footprint immediately and replaces an existing one with the same key.
func (s *Store) SaveFootprint(ctx context.Context, f Footprint) error {
	if f.Model == "" || f.GPU == "" || f.Resident <= 0 {
		return fmt.Errorf("save footprint: a model, a device and bytes are needed: %+v", f.FootprintKey)
	}
	points := f.Points
	if len(points) == 0 {
		points = json.RawMessage("[]")
	}
	_, err := s.db.ExecContext(ctx, `INSERT INTO footprints (model, settings, torch, gpu, resident_bytes, generate_base_bytes,
  generate_per_sequence_bytes, update_base_bytes, update_per_sequence_bytes, profiled, points) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET resident_bytes = excluded.resident_bytes, generate_base_bytes = excluded.generate_base_bytes,
  generate_per_sequence_bytes = excluded.generate_per_sequence_bytes, update_base_bytes = excluded.update_base_bytes,
  update_per_sequence_bytes = excluded.update_per_sequence_bytes, profiled = excluded.profiled, raised = 0, points = excluded.points`,
		f.Model, f.Settings, f.Torch, f.GPU, f.Resident, f.GenerateBase, f.GeneratePerSequence, f.UpdateBase, f.UpdatePerSequence,
		f.Profiled, string(points))
	return sqlite.Explain(s.path, err)
}

// RaiseFootprint adjusts a footprint to the memory that a run used. If resident memory or a phase exceeded the
// footprint, it raises the resident or base figure to match. It does nothing without a footprint of that key, and
// returns whether it changed one.
func (s *Store) RaiseFootprint(ctx context.Context, key FootprintKey, resident, generate, generateSequences, update, updateSequences int64, time float64) (bool, error) {
	result, err := s.db.ExecContext(ctx, `UPDATE footprints SET resident_bytes = max(resident_bytes, ?5),
  generate_base_bytes = max(generate_base_bytes, ?6 - ?7 * generate_per_sequence_bytes),
  update_base_bytes = max(update_base_bytes, ?8 - ?9 * update_per_sequence_bytes), raised = ?10
WHERE model = ?1 AND settings = ?2 AND torch = ?3 AND gpu = ?4 AND (resident_bytes < ?5
  OR generate_base_bytes < ?6 - ?7 * generate_per_sequence_bytes OR update_base_bytes < ?8 - ?9 * update_per_sequence_bytes)`,
		key.Model, key.Settings, key.Torch, key.GPU, resident, generate, generateSequences, update, updateSequences, time)
	if err != nil {
		return false, sqlite.Explain(s.path, err)
	}
	n, err := result.RowsAffected()
	return n > 0, sqlite.Explain(s.path, err)
}

// Footprints returns all measured footprints of a model on a device, newest first. An empty model selects all
// footprints.
func (r *Reader) Footprints(ctx context.Context, model, gpu string) ([]Footprint, error) {
	var found []Footprint
	err := sqlite.Query(ctx, r.db, func(rows *sql.Rows) error {
		var f Footprint
		err := rows.Scan(&f.Model, &f.Settings, &f.Torch, &f.GPU, &f.Resident, &f.GenerateBase, &f.GeneratePerSequence, &f.UpdateBase,
			&f.UpdatePerSequence, &f.Profiled, &f.Raised, (*[]byte)(&f.Points))
		found = append(found, f)
		return err
	}, `SELECT model, settings, torch, gpu, resident_bytes, generate_base_bytes, generate_per_sequence_bytes, update_base_bytes,
  update_per_sequence_bytes, profiled, raised, points
FROM footprints WHERE ?1 IN (model, '') AND ?2 IN (gpu, '') ORDER BY profiled DESC, model, settings, torch, gpu`, model, gpu)
	return found, sqlite.Explain(r.path, err)
}
