package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/interrupt"
	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/launcher/coordinator"
	"github.com/sapo-swarm/swarm/launcher/fit"
	"github.com/sapo-swarm/swarm/launcher/lifecycle"
	"github.com/sapo-swarm/swarm/metrics/store"
	"github.com/sapo-swarm/swarm/metrics/terminal"
	"github.com/sapo-swarm/swarm/node"
	"github.com/sapo-swarm/swarm/node/model"
	"github.com/sapo-swarm/swarm/node/policy"
)

// savedModel is what swarm model save reports.
type savedModel struct {
	Path       string   `json:"path"`
	Run        string   `json:"run"`
	Node       string   `json:"node"`
	Rounds     int      `json:"rounds"` // trained
	Parameters int64    `json:"parameters"`
	Bytes      int64    `json:"bytes"` // of the weights
	SHA256     string   `json:"sha256"`
	WeightHash string   `json:"weight_hash"`
	Files      []string `json:"files"`
}

func runModelSave(ctx context.Context, g *globals, runName, nodeName, dir, output string) error {
	if err := checkOutput(output); err != nil {
		return err
	}
	dir, err := emptyFolder(dir)
	if err != nil {
		return err
	}
	run, err := g.findRun(ctx, runName)
	if err != nil {
		return err
	}
	if err := coordinator.ForeignNodes(run); err != nil {
		return err
	}
	nodeName, err = g.nodeOf(run, nodeName)
	if err != nil {
		return err
	}
	ctx, interrupts := interrupt.Notify(ctx, g.stderr, "Stopping.")
	defer interrupts.Close()
	saved, err := saveModel(ctx, g, run, nodeName, dir)
	if err != nil {
		return interrupt.Exit(ctx, err)
	}
	if output == "json" {
		return writeJSON(g.stdout, saved)
	}
	fmt.Fprintf(g.stdout, "%s of %s after %s: %s parameters, %s in %s\n",
		saved.Node, saved.Run, units.Plural(saved.Rounds, "round"), units.Group(saved.Parameters), units.Bytes(saved.Bytes), saved.Path)
	fmt.Fprintf(g.stdout, "Next: %s\n", terminal.CommandLine([]string{"swarm", "model", "prompt", saved.Path}))
	return nil
}

// emptyFolder makes a path absolute (the engine, which writes it, runs elsewhere) and refuses one that holds something.
func emptyFolder(dir string) (string, error) {
	absolute, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("folder %s: %w", dir, err)
	}
	entries, err := os.ReadDir(absolute)
	switch {
	case err == nil && len(entries) == 0, errors.Is(err, fs.ErrNotExist):
		return absolute, nil
	case err == nil:
		return "", fail.Usage(fmt.Errorf("folder %s holds something already", dir), "another folder, or remove that one")
	}
	return "", fail.Usage(fmt.Errorf("folder %s: %w", dir, err), "another folder")
}

// findRun is the run of that name, or the newest of that experiment.
func (g *globals) findRun(ctx context.Context, name string) (store.Run, error) {
	reader, err := g.openReader(ctx)
	if err != nil {
		return store.Run{}, err
	}
	defer reader.Close()
	snapshot, err := reader.Snapshot(ctx, name)
	if err != nil {
		return store.Run{}, lifecycle.NotFound(err, name)
	}
	return snapshot.Run, nil
}

// nodeOf is the name of a run's node that has a folder, given by name or number.
func (g *globals) nodeOf(run store.Run, name string) (string, error) {
	if index, err := strconv.Atoi(name); err == nil {
		name = fit.NodeName(index)
	}
	known, err := g.nodeFolders(run)
	if err != nil {
		return "", err
	}
	if !slices.Contains(known, name) {
		return "", fail.Usage(fmt.Errorf("run %s has no node %q here: it has %s", run.Run, name, strings.Join(known, ", ")), "swarm status "+run.Run)
	}
	return name, nil
}

// nodeFolders are the names of a run's nodes that have a folder here, by number.
func (g *globals) nodeFolders(run store.Run) ([]string, error) {
	entries, err := os.ReadDir(g.home.Path("runs", run.Run))
	if err != nil {
		return nil, fail.Hint(fmt.Errorf("the folder of run %s: %w", run.Run, err), "--home where the run was made")
	}
	var known []string
	for _, entry := range entries {
		if entry.IsDir() && strings.HasPrefix(entry.Name(), "node_") {
			known = append(known, entry.Name())
		}
	}
	slices.SortFunc(known, func(a, b string) int { return cmp.Or(fit.NodeIndex(a)-fit.NodeIndex(b), strings.Compare(a, b)) })
	return known, nil
}

// saveModel restores a node's newest checkpoint in an engine of its own and has it write the weights.
func saveModel(ctx context.Context, g *globals, run store.Run, nodeName, dir string) (savedModel, error) {
	var config configs.Config
	if err := json.Unmarshal(run.Config, &config); err != nil {
		return savedModel{}, fmt.Errorf("configuration of run %s: %w", run.Run, err)
	}
	base, err := model.Find(config.ModelOf(fit.NodeIndex(nodeName)))
	if err != nil {
		return savedModel{}, err
	}
	modelDir, err := model.Resolve(base, string(g.home))
	if err != nil {
		return savedModel{}, err
	}
	threads := runtime.GOMAXPROCS(0)
	engine, err := startEngine(ctx, g, threads)
	if err != nil {
		return savedModel{}, err
	}
	defer engine.Close()
	loaded, err := engine.Load(ctx, policy.LoadParams{
		ModelDir: modelDir, Device: "cpu", Precision: "fp32", Threads: threads,
		AdamBeta1: config.AdamBeta1, AdamBeta2: config.AdamBeta2, AdamEpsilon: config.AdamEpsilon, WeightDecay: config.WeightDecay,
	})
	if err != nil {
		return savedModel{}, fmt.Errorf("load model %s: %w", base.Name, err)
	}
	rounds, err := node.RestoreNewest(ctx, g.home.Path("runs", run.Run, nodeName), engine, g.logger)
	if err != nil {
		return savedModel{}, err
	}
	if rounds == 0 {
		err := fmt.Errorf("%s of run %s has no checkpoint yet", nodeName, run.Run)
		return savedModel{}, fail.Hint(err, "again when it has trained for checkpoint_every rounds")
	}
	weights, err := engine.Save(ctx, policy.SaveParams{Path: dir, Format: "huggingface", DType: "float32"})
	if err != nil {
		return savedModel{}, fmt.Errorf("write %s: %w", dir, err)
	}
	if err := saveTokenizer(base, modelDir, dir); err != nil {
		return savedModel{}, fmt.Errorf("write %s: %w", dir, err)
	}
	saved := savedModel{
		Path: dir, Run: run.Run, Node: nodeName, Rounds: rounds, Parameters: loaded.Parameters,
		Bytes: weights.Bytes, SHA256: weights.SHA256, WeightHash: weights.WeightHash,
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return savedModel{}, err
	}
	for _, entry := range entries {
		saved.Files = append(saved.Files, entry.Name())
	}
	return saved, nil
}
