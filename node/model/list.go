package model

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/internal/table"
	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/node/model/hub"
)

// Listed is one model of a list.
type Listed struct {
	Name         string `json:"name"`
	Weights      string `json:"weights"`
	Architecture string `json:"architecture"`
	Parameters   int64  `json:"parameters"`
	License      string `json:"license,omitempty"` // of a preset's weights
	Preset       bool   `json:"preset"`
	State        string `json:"state"` // embedded, cached or missing
	Path         string `json:"path,omitempty"`
	Bytes        int64  `json:"bytes"` // size on this machine; for a missing model, size of its weights
	Problem      string `json:"problem,omitempty"`
}

// Table formats models as a table.
func Table(rows []Listed) *table.Table {
	t := table.New(table.Column{Title: "MODEL"}, table.Column{Title: "ARCHITECTURE", Drop: 2}, table.Column{Title: "PARAMETERS", Right: true, Drop: 1},
		table.Column{Title: "LICENSE", Drop: 3}, table.Column{Title: "STATE"}, table.Column{Title: "SIZE", Right: true})
	for _, r := range rows {
		size := units.Bytes(r.Bytes)
		if r.State == Embedded {
			size = "built in"
		}
		t.Add(r.Name, r.Architecture, units.Group(r.Parameters), r.License, r.State, size)
	}
	return t
}

// List returns the presets, then the other models in the cache that can be trained.
func List() ([]Listed, error) {
	cache, err := hub.Cache(os.Getenv)
	if err != nil {
		return nil, err
	}
	var rows []Listed
	known := map[string]bool{}
	for _, name := range configs.Models() {
		m, err := configs.LoadModel(name)
		if err != nil {
			return nil, err
		}
		known[hub.CanonicalID(m.Weights)] = true
		rows = append(rows, presetRow(m, cache))
	}
	ids, err := hub.Cached(cache)
	if err != nil {
		return nil, fmt.Errorf("list the Hugging Face cache: %w", err)
	}
	for _, id := range ids {
		dir, err := hub.Snapshot(cache, id, hub.Main)
		if err != nil || known[hub.CanonicalID(id)] {
			continue
		}
		if shape, err := Inspect(dir); err == nil {
			rows = append(rows, Listed{
				Name: id, Weights: id, Architecture: shape.Family(), Parameters: shape.Parameters, State: "cached", Path: dir, Bytes: folderBytes(dir),
			})
		}
	}
	return rows, nil
}

func presetRow(m configs.Model, cache string) Listed {
	row := Listed{
		Name: m.Name, Weights: m.Weights, Architecture: m.Shape.Family(), Parameters: m.Shape.Parameters, License: m.License, Preset: true,
		State: "missing", Bytes: m.DownloadBytes,
	}
	if m.Weights == Embedded {
		row.State = Embedded
		return row
	}
	dir, err := Resolve(m, "")
	var missing *MissingError
	switch {
	case err == nil:
		row.State, row.Path, row.Bytes = "cached", dir, folderBytes(dir)
	case errors.As(err, &missing):
		if _, none := hub.Snapshot(cache, m.Weights, hub.Main); none == nil {
			row.Problem = missing.Reason
		}
	default:
		row.Problem = err.Error()
	}
	return row
}

// folderBytes adds up the sizes of a folder's files, following links.
func folderBytes(dir string) int64 {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return 0
	}
	var total int64
	for _, entry := range entries {
		if info, err := os.Stat(filepath.Join(dir, entry.Name())); err == nil && info.Mode().IsRegular() {
			total += info.Size()
		}
	}
	return total
}
