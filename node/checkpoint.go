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
	"github.com/sapo-swarm/swarm/node/best"
	"github.com/sapo-swarm/swarm/node/policy"
)

// keepCheckpoints is the number of checkpoints that a node keeps: the newest, and a spare in case the newest is
// damaged.
const keepCheckpoints = 2

// errSaveLost reports that the engine of a background save was replaced before it reported the save.
var errSaveLost = errors.New("the engine that was writing it has been replaced")

// Saver is the part of the engine that checkpoints.
type Saver interface {
	Save(context.Context, policy.SaveParams) (policy.SaveResult, error)
	Saved(context.Context, policy.SavedParams) (policy.SaveResult, error)
	Restore(context.Context, policy.RestoreParams) (policy.RestoreResult, error)
}

// checkpoints manages a node's folder of checkpoints. A checkpoint is a file that the engine wrote (weights, Adam)
// and a manifest that the node wrote after it. A file without a manifest does not count. Call its methods from one
// goroutine.
type checkpoints struct {
	dir    string
	owner  owner
	logger *slog.Logger
	split  func() (json.RawMessage, error) // Node.splitState; nil: store no split state

	pending *manifest // being written in the background
	pause   float64   // seconds that the pending save blocked the node
}

// begin starts to write a checkpoint after this number of rounds, in the background if the engine can. In that case it
// returns nil, and collect returns the result. No other save may be pending.
func (c *checkpoints) begin(ctx context.Context, engine Saver, round int) (*event.Checkpoint, error) {
	return c.write(ctx, engine, round, true)
}

// save writes a checkpoint after this number of rounds and waits for it.
func (c *checkpoints) save(ctx context.Context, engine Saver, round int) (event.Checkpoint, error) {
	done, err := c.write(ctx, engine, round, false)
	if err != nil {
		return event.Checkpoint{}, err
	}
	return *done, nil
}

func (c *checkpoints) write(ctx context.Context, engine Saver, round int, background bool) (*event.Checkpoint, error) {
	m := &manifest{Version: manifestVersion, owner: c.owner, Round: round, File: checkpointName(round) + ".safetensors"}
	if c.split != nil {
		var err error
		if m.Split, err = c.split(); err != nil {
			return nil, fmt.Errorf("checkpoint after round %d: %w", round, err)
		}
	}
	// Remove the manifest that a previous process left under this name: it does not describe the new file.
	if err := os.Remove(c.manifestPath(round)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("checkpoint after round %d: %w", round, err)
	}
	result, err := engine.Save(ctx, policy.SaveParams{
		Path: filepath.Join(c.dir, m.File), Format: "checkpoint", Metadata: map[string]string{"round": strconv.Itoa(round)}, Background: background,
	})
	if err != nil {
		return nil, fmt.Errorf("checkpoint after round %d: %w", round, err)
	}
	if result.Pending {
		c.pending, c.pause = m, result.Pause
		return nil, nil
	}
	return c.finish(m, result, result.Seconds)
}

// collect returns the pending checkpoint once it is written. It returns nil if none is pending, if the engine is
// still writing and wait is not set, or if the engine was replaced.
func (c *checkpoints) collect(ctx context.Context, engine Saver, wait bool) (*event.Checkpoint, error) {
	if c.pending == nil {
		return nil, nil
	}
	m := c.pending
	result, err := engine.Saved(ctx, policy.SavedParams{Wait: wait})
	if errors.Is(err, errSaveLost) {
		c.logger.Warn("checkpoint lost", "round", m.Round, "reason", err)
		c.pending = nil
		_ = os.Remove(filepath.Join(c.dir, m.File)) // no manifest will make it a checkpoint
		return nil, nil
	}
	if err != nil {
		c.pending = nil
		return nil, fmt.Errorf("checkpoint after round %d: %w", m.Round, err)
	}
	if result.Pending {
		return nil, nil
	}
	c.pending = nil
	return c.finish(m, result, max(c.pause, result.Pause))
}

// finish writes the manifest of a complete file, then removes all but the newest two checkpoints.
func (c *checkpoints) finish(m *manifest, saved policy.SaveResult, pause float64) (*event.Checkpoint, error) {
	m.SHA256, m.WeightHash, m.Bytes, m.Seconds, m.Pause = saved.SHA256, saved.WeightHash, saved.Bytes, saved.Seconds, pause
	if err := m.write(c.manifestPath(m.Round)); err != nil {
		return nil, fmt.Errorf("checkpoint manifest: %w", err)
	}
	list, _ := c.list()
	for _, old := range list[:max(0, len(list)-keepCheckpoints)] {
		c.remove(old.Round)
	}
	return m.event(c.dir), nil
}

// list reads the manifests, oldest first. refused has the error of each manifest that is not used, by file name, and
// under "." that of reading the folder.
func (c *checkpoints) list() (list []manifest, refused map[string]error) {
	refused = map[string]error{}
	entries, err := os.ReadDir(c.dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		refused["."] = err
	}
	for _, entry := range entries {
		if match, _ := filepath.Match("checkpoint-*.json", entry.Name()); !match {
			continue
		}
		m, err := readManifest(filepath.Join(c.dir, entry.Name()))
		if errors.Is(err, os.ErrNotExist) {
			continue // the node has just replaced it with a newer one
		}
		if err != nil {
			refused[entry.Name()] = err
			continue
		}
		list = append(list, m)
	}
	slices.SortFunc(list, func(a, b manifest) int { return a.Round - b.Round })
	return list, refused
}

// remove deletes a checkpoint. It deletes the manifest first, because a file without one does not count.
func (c *checkpoints) remove(round int) {
	_ = os.Remove(c.manifestPath(round))
	_ = os.Remove(filepath.Join(c.dir, checkpointName(round)+".safetensors"))
}

// leftovers removes the partial files of a previous process, and checkpoint files without a manifest.
func (c *checkpoints) leftovers() {
	for _, pattern := range []string{"checkpoint-*.tmp", ".checkpoint-*.tmp", "restart.safetensors*", "." + memorySettingsFile + "-*.tmp", "." + best.File + "-*.tmp"} {
		paths, _ := filepath.Glob(filepath.Join(c.dir, pattern))
		for _, path := range paths {
			c.logger.Info("leftover removed", "file", filepath.Base(path))
			_ = os.Remove(path)
		}
	}
	files, _ := filepath.Glob(filepath.Join(c.dir, "checkpoint-*.safetensors"))
	for _, path := range files {
		manifest := path[:len(path)-len(".safetensors")] + ".json"
		if _, err := os.Stat(manifest); errors.Is(err, os.ErrNotExist) {
			c.logger.Info("leftover removed", "file", filepath.Base(path))
			_ = os.Remove(path)
		}
	}
}

func checkpointName(round int) string { return fmt.Sprintf("checkpoint-%08d", round) }

func (c *checkpoints) manifestPath(round int) string {
	return filepath.Join(c.dir, checkpointName(round)+".json")
}
