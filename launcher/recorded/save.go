package recorded

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/launcher/plan"
	"github.com/sapo-swarm/swarm/metrics/store"
	"github.com/sapo-swarm/swarm/metrics/terminal"
	"github.com/sapo-swarm/swarm/node"
	"github.com/sapo-swarm/swarm/node/model"
	"github.com/sapo-swarm/swarm/node/policy"
)

// Saved describes a node's model that was written to a folder.
type Saved struct {
	Path       string   `json:"path"`
	Run        string   `json:"run"`
	Node       string   `json:"node"`
	Rounds     int      `json:"rounds"` // trained
	Parameters int64    `json:"parameters"`
	Bytes      int64    `json:"bytes"` // of the weights
	SHA256     string   `json:"sha256"`
	WeightHash string   `json:"weight_hash"`
	Files      []string `json:"files"`

	ValidationPass *float64 `json:"validation_pass,omitempty"` // pass@1 that best weights were chosen by
	Former         []string `json:"former,omitempty"`          // folders of earlier best weights, chosen by other questions or before damage
}

// Print prints what was written, and the command to prompt it.
func (s Saved) Print(w io.Writer) {
	fmt.Fprintf(w, "%s of %s after %s: %s parameters, %s in %s\n",
		s.Node, s.Run, units.Plural(s.Rounds, "round"), units.Group(s.Parameters), units.Bytes(s.Bytes), s.Path)
	if s.ValidationPass != nil {
		fmt.Fprintf(w, "Its best weights, by validation: pass@1 %.4f, the highest of several and so too high. swarm eval %s measures them.\n",
			*s.ValidationPass, terminal.CommandLine([]string{s.Path}))
	}
	for _, former := range s.Former {
		fmt.Fprintf(w, "Earlier best weights are in %s\n", former)
	}
	fmt.Fprintf(w, "Next: %s\n", terminal.CommandLine([]string{"swarm", "model", "prompt", s.Path}))
}

// EmptyFolder returns the absolute path of a folder that is missing or empty. The path must be absolute because the
// engine that writes it has another working directory.
func EmptyFolder(dir string) (string, error) {
	absolute, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("folder %s: %w", dir, err)
	}
	entries, err := os.ReadDir(absolute)
	switch {
	case err == nil && len(entries) == 0, errors.Is(err, fs.ErrNotExist):
		return absolute, nil
	case err == nil:
		return "", fail.Usage(fmt.Errorf("folder %s is not empty", dir), "another folder")
	}
	return "", fail.Usage(fmt.Errorf("folder %s: %w", dir, err), "another folder")
}

// nodeModel returns a run's configuration, the model of one of its nodes, and the folder with that model's first
// weights.
func nodeModel(h plan.Host, run store.Run, nodeName string) (config configs.Config, base configs.Model, modelDir string, err error) {
	if err := json.Unmarshal(run.Config, &config); err != nil {
		return config, base, "", fmt.Errorf("configuration of run %s: %w", run.Run, err)
	}
	if base, err = model.Find(config.ModelOf(configs.NodeIndex(nodeName))); err != nil {
		return config, base, "", err
	}
	modelDir, err = model.Resolve(base, string(h.Home))
	return config, base, modelDir, err
}

// startWith starts an engine with the weights of a folder. The caller closes it.
func startWith(ctx context.Context, h plan.Host, config configs.Config, folder string) (*policy.Engine, policy.LoadResult, error) {
	threads := runtime.GOMAXPROCS(0)
	engine, err := h.Python.Start(ctx, h.Stderr, threads)
	if err != nil {
		return nil, policy.LoadResult{}, err
	}
	loaded, err := engine.Load(ctx, policy.LoadParams{
		ModelDir: folder, Device: "cpu", Precision: "fp32", Threads: threads,
		AdamBeta1: config.AdamBeta1, AdamBeta2: config.AdamBeta2, AdamEpsilon: config.AdamEpsilon, WeightDecay: config.WeightDecay,
	})
	if err != nil {
		engine.Close()
		return nil, loaded, fmt.Errorf("load model %s: %w", folder, err)
	}
	return engine, loaded, nil
}

// Save restores a node's newest checkpoint in a new engine, which then writes the weights as dtype, one of
// policy.DTypes.
func Save(ctx context.Context, h plan.Host, run store.Run, nodeName, dir, dtype string) (Saved, error) {
	config, base, modelDir, err := nodeModel(h, run, nodeName)
	if err != nil {
		return Saved{}, err
	}
	engine, loaded, err := startWith(ctx, h, config, modelDir)
	if err != nil {
		return Saved{}, err
	}
	defer engine.Close()
	rounds, err := node.RestoreNewest(ctx, h.Home.Path("runs", run.Run, nodeName), engine, h.Logger)
	if err != nil {
		return Saved{}, err
	}
	if rounds == 0 {
		err := fmt.Errorf("%s of run %s has no checkpoint yet", nodeName, run.Run)
		return Saved{}, fail.Hint(err, "again after checkpoint_every rounds")
	}
	weights, err := engine.Save(ctx, policy.SaveParams{Path: dir, Format: "huggingface", DType: dtype})
	if err != nil {
		return Saved{}, fmt.Errorf("write %s: %w", dir, err)
	}
	if err := model.SaveTokenizer(base, modelDir, dir); err != nil {
		return Saved{}, fmt.Errorf("write %s: %w", dir, err)
	}
	saved := Saved{
		Path: dir, Run: run.Run, Node: nodeName, Rounds: rounds, Parameters: loaded.Parameters,
		Bytes: weights.Bytes, SHA256: weights.SHA256, WeightHash: weights.WeightHash,
	}
	saved.Files, err = fileNames(dir)
	return saved, err
}

// fileNames are the names in a folder.
func fileNames(dir string) (names []string, err error) {
	entries, err := os.ReadDir(dir)
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names, err
}
