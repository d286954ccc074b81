package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/node/atomicfile"
	"github.com/sapo-swarm/swarm/node/policy"
)

// keepCheckpoints is how many a node keeps: the newest, and one more in case that one is damaged.
const keepCheckpoints = 2

// Saver is the part of the engine that checkpoints.
type Saver interface {
	Save(context.Context, policy.SaveParams) (policy.SaveResult, error)
	Restore(context.Context, policy.RestoreParams) (policy.RestoreResult, error)
}

// checkpoints is a node's folder of checkpoints. Each is a file the engine wrote (weights, Adam, RNG) and beside it a manifest
// that this node wrote after it: without its manifest a file does not count.
type checkpoints struct {
	dir    string
	logger *slog.Logger
}

type manifest struct {
	Round      int    `json:"round"` // rounds done
	File       string `json:"file"`
	SHA256     string `json:"sha256"`
	WeightHash string `json:"weight_hash"`
	Bytes      int64  `json:"bytes"`
}

// save writes a checkpoint after round rounds, then drops what is older than the newest two.
func (c checkpoints) save(ctx context.Context, engine Saver, round int) (event.Checkpoint, error) {
	name := fmt.Sprintf("checkpoint-%08d", round)
	path := filepath.Join(c.dir, name+".safetensors")
	saved, err := engine.Save(ctx, policy.SaveParams{
		Path: path, Format: "checkpoint", Metadata: map[string]string{"round": strconv.Itoa(round)},
	})
	if err != nil {
		return event.Checkpoint{}, fmt.Errorf("checkpoint after round %d: %w", round, err)
	}
	m := manifest{Round: round, File: filepath.Base(path), SHA256: saved.SHA256, WeightHash: saved.WeightHash, Bytes: saved.Bytes}
	data, err := json.Marshal(m)
	if err != nil {
		return event.Checkpoint{}, fmt.Errorf("checkpoint manifest: %w", err)
	}
	if err := atomicfile.Write(filepath.Join(c.dir, name+".json"), data); err != nil {
		return event.Checkpoint{}, fmt.Errorf("checkpoint manifest: %w", err)
	}
	c.prune()
	return event.Checkpoint{Round: round, Path: path, Bytes: saved.Bytes, WeightHash: saved.WeightHash, Seconds: saved.Seconds}, nil
}

// restore brings the newest good checkpoint back and returns how many rounds it holds; 0 and no error when there is none. A damaged
// one is reported and the older one used: the rounds in between are computed again.
func (c checkpoints) restore(ctx context.Context, engine Saver) (int, error) {
	list := c.list()
	for _, m := range slices.Backward(list) {
		result, err := engine.Restore(ctx, policy.RestoreParams{Path: filepath.Join(c.dir, m.File), SHA256: m.SHA256})
		var refused *policy.Error
		switch {
		case errors.As(err, &refused) && refused.Kind == policy.KindCheckpoint:
			c.logger.Warn("checkpoint not used", "round", m.Round, "file", m.File, "reason", refused.Message)
			continue
		case err != nil:
			return 0, fmt.Errorf("restore checkpoint of round %d: %w", m.Round, err)
		case result.Metadata["round"] != strconv.Itoa(m.Round):
			c.logger.Warn("checkpoint not used", "round", m.Round, "file", m.File, "reason", "its file is of round "+result.Metadata["round"])
			continue
		}
		return m.Round, nil
	}
	if len(list) > 0 {
		return 0, &Failure{event.CauseCheckpoint, fmt.Errorf("none of the %d checkpoints in %s can be read. Try: move that folder away to train from the start", len(list), c.dir)}
	}
	return 0, nil
}

// list reads the manifests, oldest first; unreadable ones don't count.
func (c checkpoints) list() []manifest {
	paths, _ := filepath.Glob(filepath.Join(c.dir, "checkpoint-*.json"))
	var list []manifest
	for _, path := range paths {
		data, err := os.ReadFile(path)
		var m manifest
		if err != nil || json.Unmarshal(data, &m) != nil || m.Round < 1 || m.File != filepath.Base(m.File) {
			c.logger.Warn("checkpoint manifest not used", "file", path)
			continue
		}
		list = append(list, m)
	}
	slices.SortFunc(list, func(a, b manifest) int { return a.Round - b.Round })
	return list
}

func (c checkpoints) prune() {
	list := c.list()
	for i := 0; i < len(list)-keepCheckpoints; i++ {
		// The manifest goes first: a file without one is nothing.
		_ = os.Remove(filepath.Join(c.dir, fmt.Sprintf("checkpoint-%08d.json", list[i].Round)))
		_ = os.Remove(filepath.Join(c.dir, list[i].File))
	}
}
