package profile

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/sapo-swarm/swarm/internal/table"
	"github.com/sapo-swarm/swarm/internal/units"
)

// Document is the result of a profile.
type Document struct {
	Model    string          `json:"model"`
	Settings json.RawMessage `json:"settings"`
	Torch    string          `json:"torch"`
	GPU      string          `json:"gpu"`
	Resident int64           `json:"resident_bytes"`
	Generate Line            `json:"generate"`
	Update   Line            `json:"update"`
	Points   []Point         `json:"points"`
	Seconds  float64         `json:"seconds"`
}

// Line describes the progress.
func (s Step) Line(elapsed time.Duration) string {
	line := fmt.Sprintf("%d of %d: %s, %d at a time", s.Done+1, s.Total, s.Phase, s.Sequences)
	if s.Share > 0.05 {
		left := time.Duration(float64(elapsed) * (1 - s.Share) / s.Share).Round(time.Second)
		line += fmt.Sprintf(", about %s left", left)
	}
	return line
}

// Print shows the points and the lines through them.
func (r Document) Print(w *table.Page) {
	w.Printf("%s on %s, torch %s: %s between phases\n\n", r.Model, r.GPU, r.Torch, units.Bytes(r.Resident))
	t := table.New(table.Column{Title: "phase"}, table.Column{Title: "at a time", Right: true}, table.Column{Title: "measured", Right: true},
		table.Column{Title: "line", Right: true}, table.Column{Title: "seconds", Right: true})
	for _, p := range r.Points {
		line, took := r.Generate, units.Bytes(p.Bytes)
		if p.Phase == Update {
			line = r.Update
		}
		if !p.Fits {
			took = "does not fit"
		}
		t.Add(p.Phase, strconv.Itoa(p.Sequences), took, units.Bytes(line.At(p.Sequences)), fmt.Sprintf("%.1f", p.Seconds))
	}
	w.Table(t)
	w.Printf("\ngenerate: %s + %s per completion; update: %s + %s per sequence of the micro-batch\n"+
		"Stored: swarm plan and swarm up now use this for the same model and settings.\n",
		units.Bytes(r.Generate.Base), fine(r.Generate.PerSequence), units.Bytes(r.Update.Base), fine(r.Update.PerSequence))
}

// fine formats bytes like units.Bytes, but small numbers in kB, because they are multiplied by many sequences.
func fine(n int64) string {
	if n < 10_000_000 {
		return fmt.Sprintf("%.0f kB", float64(n)/1e3)
	}
	return units.Bytes(n)
}
