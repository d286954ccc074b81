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
	"github.com/sapo-swarm/swarm/node/policy"
)

// keepCheckpoints is how many a node keeps: the newest, and one more in case that one is damaged.
const keepCheckpoints = 2

// errSaveLost is that of a save in the background whose engine was replaced before it told of it.
var errSaveLost = errors.New("the engine that was writing it has been replaced")

// Saver is the part of the engine that checkpoints.
type Saver interface {
	Save(context.Context, policy.SaveParams) (policy.SaveResult, error)
	Saved(context.Context, policy.SavedParams) (policy.SaveResult, error)
	Restore(context.Context, policy.RestoreParams) (policy.RestoreResult, error)
}

// checkpoints is a node's folder of checkpoints. Each is a file the engine wrote (weights, Adam) and beside it a
// manifest that this node wrote after it: without its manifest a file does not count. Its methods are called from one
// goroutine.
type checkpoints struct {
	dir    string
	owner  owner
	logger *slog.Logger
	split  func() (json.RawMessage, error) // Node.splitState; nil: nothing is kept

	pending *manifest // being written in the background
	pause   float64   // seconds that it has cost
}

// begin starts writing a checkpoint after round rounds, in the background as far as the engine can: it returns nil
// then, and collect gives the result. None may be pending.
func (c *checkpoints) begin(ctx context.Context, engine Saver, round int) (*event.Checkpoint, error) {
	return c.write(ctx, engine, round, true)
}

// save writes a checkpoint after round rounds and waits for it.
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
	// One of the same name, of a previous process, ends here: its manifest is not this file's.
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

// collect returns the checkpoint that was pending once it is there, nil where none is pending, where it is still being
// written and wait isn't set, or where it was lost with its engine.
func (c *checkpoints) collect(ctx context.Context, engine Saver, wait bool) (*event.Checkpoint, error) {
	if c.pending == nil {
		return nil, nil
	}
	m := c.pending
	result, err := engine.Saved(ctx, policy.SavedParams{Wait: wait})
	if errors.Is(err, errSaveLost) {
		c.logger.Warn("checkpoint lost", "round", m.Round, "reason", err)
		c.pending = nil
		_ = os.Remove(filepath.Join(c.dir, m.File)) // it would never count
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

// finish writes the manifest of a file that is there, then drops what is older than the newest two.
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

// list reads the manifests, oldest first. What is wrong with others it says by file name.
func (c *checkpoints) list() (list []manifest, refused map[string]error) {
	paths, _ := filepath.Glob(filepath.Join(c.dir, "checkpoint-*.json"))
	refused = map[string]error{}
	for _, path := range paths {
		m, err := readManifest(path)
		if errors.Is(err, os.ErrNotExist) {
			continue // its node has just replaced it by a newer one
		}
		if err != nil {
			refused[filepath.Base(path)] = err
			continue
		}
		list = append(list, m)
	}
	slices.SortFunc(list, func(a, b manifest) int { return a.Round - b.Round })
	return list, refused
}

// remove drops a checkpoint. The manifest goes first: a file without one is nothing.
func (c *checkpoints) remove(round int) {
	_ = os.Remove(c.manifestPath(round))
	_ = os.Remove(filepath.Join(c.dir, checkpointName(round)+".safetensors"))
}

// leftovers removes what a previous process was writing when it ended, and files without a manifest.
func (c *checkpoints) leftovers() {
	for _, pattern := range []string{"checkpoint-*.tmp", ".checkpoint-*.tmp", "restart.safetensors*", "." + memorySettingsFile + "-*.tmp"} {
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
