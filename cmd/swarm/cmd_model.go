package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/interrupt"
	"github.com/sapo-swarm/swarm/internal/screen"
	"github.com/sapo-swarm/swarm/internal/table"
	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/node/model"
	"github.com/sapo-swarm/swarm/node/model/hub"
)

func newModelCommand(g *globals) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "model",
		Short: "Download, list, describe, save and ask models",
		Args:  onlySubcommands,
		RunE:  func(cmd *cobra.Command, args []string) error { return cmd.Help() },
	}
	pull := &cobra.Command{
		Use: "pull NAME[@REVISION]", Short: "Download a model from the Hugging Face hub",
		Args: arguments("one model's name", 1, "swarm model list"),
		Long: "pull downloads a model's configuration, weights (safetensors) and tokenizer into the Hugging Face cache, where transformers\n" +
			"finds them too. What is there is not downloaded again; a download that was interrupted goes on where it stopped; every file's\n" +
			"size and hash are checked. NAME is a preset's or a name of the hub. HF_HOME or HF_HUB_CACHE say where the cache is,\n" +
			"HF_ENDPOINT names a mirror, HF_TOKEN opens models that are private or gated, HTTPS_PROXY is respected.",
		Example: "  swarm model pull gpt2\n  swarm model pull Qwen/Qwen2.5-0.5B-Instruct",
		RunE:    func(cmd *cobra.Command, args []string) error { return runModelPull(cmd.Context(), g, args[0], output) },
	}
	list := &cobra.Command{
		Use: "list", Short: "List the presets and the cached models that the engine can train", Args: noArgs,
		RunE: func(cmd *cobra.Command, args []string) error { return runModelList(g, output) },
	}
	show := &cobra.Command{
		Use: "show NAME or DIR", Short: "Show a model's shape, parameters and memory",
		Args: arguments("one model's name or folder", 1, "swarm model list"),
		RunE: func(cmd *cobra.Command, args []string) error { return runModelShow(g, args[0], output) },
	}
	save := &cobra.Command{
		Use: "save RUN NODE DIR", Short: "Write a trained node's model as a Hugging Face folder",
		Args: arguments("a run, a node and a folder", 3, "swarm model save --help"),
		Long: "save writes the weights of a node's newest checkpoint as a folder that transformers and --model open: config.json, weights in\n" +
			"float32 as model.safetensors, and the tokenizer: the base model's files, or files of the tokenizer that training used where it has\n" +
			"none. RUN is a run's or an experiment's name, of which the newest run counts; NODE is a node's name, such as node_0, or its\n" +
			"number. DIR must be new or empty.",
		Example: "  swarm model save 4loc4ext-1 node_0 ./trained\n  swarm model save 4loc4ext 3 ./trained",
		RunE: func(cmd *cobra.Command, args []string) error {
			return runModelSave(cmd.Context(), g, args[0], args[1], args[2], output)
		},
	}
	prompt := newModelPromptCommand(g, &output)
	for _, c := range []*cobra.Command{pull, list, show, save, prompt} {
		addOutputFlag(c.Flags(), &output)
		if c.Long == "" {
			c.Long = c.Short + "."
		}
		c.Long += "\n" + exitCodesHelp
		cmd.AddCommand(c)
	}
	return cmd
}

// arguments asks for exactly n positional arguments.
func arguments(what string, n int, try string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != n {
			return fail.Usage(fmt.Errorf("%s takes %s, not %d arguments", cmd.CommandPath(), what, len(args)), try)
		}
		return nil
	}
}

// modelRow is one model of swarm model list.
type modelRow struct {
	Name         string `json:"name"`
	Weights      string `json:"weights"`
	Architecture string `json:"architecture"`
	Parameters   int64  `json:"parameters"`
	Preset       bool   `json:"preset"`
	State        string `json:"state"` // embedded, cached, missing
	Path         string `json:"path,omitempty"`
	Bytes        int64  `json:"bytes"` // on this machine; of a missing one what its weights take
	Problem      string `json:"problem,omitempty"`
}

func runModelList(g *globals, output string) error {
	if err := checkOutput(output); err != nil {
		return err
	}
	rows, err := modelRows()
	if err != nil {
		return err
	}
	if output == "json" {
		return writeJSON(g.stdout, rows)
	}
	return screen.Print(g.stdout, func(p *table.Page) { p.Table(modelTable(rows)) })
}

func modelTable(rows []modelRow) *table.Table {
	t := table.New(table.Column{Title: "MODEL"}, table.Column{Title: "ARCHITECTURE", Drop: 2}, table.Column{Title: "PARAMETERS", Right: true, Drop: 1},
		table.Column{Title: "STATE"}, table.Column{Title: "SIZE", Right: true})
	for _, r := range rows {
		size := units.Bytes(r.Bytes)
		if r.State == model.Embedded {
			size = "built in"
		}
		t.Add(r.Name, r.Architecture, units.Group(r.Parameters), r.State, size)
	}
	return t
}

// modelRows lists the presets, then what else is in the cache and can be trained.
func modelRows() ([]modelRow, error) {
	cache, err := hub.Cache(os.Getenv)
	if err != nil {
		return nil, err
	}
	var rows []modelRow
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
		if shape, err := model.Inspect(dir); err == nil {
			rows = append(rows, modelRow{
				Name: id, Weights: id, Architecture: shape.Family(), Parameters: shape.Parameters, State: "cached", Path: dir, Bytes: folderBytes(dir),
			})
		}
	}
	return rows, nil
}

func presetRow(m configs.Model, cache string) modelRow {
	row := modelRow{
		Name: m.Name, Weights: m.Weights, Architecture: m.Shape.Family(), Parameters: m.Shape.Parameters, Preset: true,
		State: "missing", Bytes: m.DownloadBytes,
	}
	if m.Weights == model.Embedded {
		row.State = model.Embedded
		return row
	}
	dir, err := model.Resolve(m, "")
	var missing *model.MissingError
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

// folderBytes adds up the files of a folder, links followed.
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

// modelMemory is what a model's parameters take in fp32 while it trains, in bytes.
type modelMemory struct {
	Weights    int64               `json:"weights_bytes"`
	Gradients  int64               `json:"gradients_bytes"`
	Optimizer  int64               `json:"optimizer_bytes"` // Adam's two moments
	Checkpoint int64               `json:"checkpoint_bytes"`
	Guide      configs.GuideMemory `json:"guide"`
	GuideTotal int64               `json:"guide_total_bytes"`
}

func memoryOf(m configs.Model) modelMemory {
	weights := 4 * m.Shape.Parameters
	return modelMemory{
		Weights: weights, Gradients: weights, Optimizer: 2 * weights, Checkpoint: 3 * weights, Guide: m.GuideMemory, GuideTotal: m.GuideMemory.Total(),
	}
}

func runModelShow(g *globals, name, output string) error {
	if err := checkOutput(output); err != nil {
		return err
	}
	m, err := model.Find(name)
	if err != nil {
		return err
	}
	memory := memoryOf(m)
	if output == "json" {
		return writeJSON(g.stdout, struct {
			configs.Model
			Memory modelMemory `json:"memory"`
		}{m, memory})
	}
	return screen.Print(g.stdout, func(p *table.Page) { printModel(p, m, memory) })
}

func printModel(w *table.Page, m configs.Model, memory modelMemory) {
	s := m.Shape
	w.Printf("model       %s\nweights     %s\n", m.Name, m.Weights)
	w.Printf("shape       %s: %d layers, %d heads (%d for keys and values), width %d, feed-forward %d\n",
		s.Family(), s.Layers, s.Heads, s.KeyValueHeads(), s.Width, s.InnerWidth())
	w.Printf("text        %s tokens in the vocabulary, %s of context, tokenizer %s\n",
		units.Group(int64(s.Vocabulary)), units.Group(int64(s.Context)), m.Tokenizer)
	w.Printf("parameters  %s\n", units.Group(s.Parameters))
	w.Printf("memory      %s weights, %s gradients, %s Adam; activations and the KV cache come on top (swarm plan)\n",
		units.Bytes(memory.Weights), units.Bytes(memory.Gradients), units.Bytes(memory.Optimizer))
	if memory.GuideTotal > 0 {
		w.Printf("guide 4     %s a node: %s weights, %s forward, %s gradients and optimizer, %s working memory\n", units.Bytes(memory.GuideTotal),
			units.Bytes(m.GuideMemory.Weights), units.Bytes(m.GuideMemory.Forward), units.Bytes(m.GuideMemory.GradientsAndOptimizer), units.Bytes(m.GuideMemory.Working))
	}
	w.Printf("checkpoint  %s each\n", units.Bytes(memory.Checkpoint))
}

// hubName is a preset's or the hub's NAME[@REVISION] as the hub spells it.
func hubName(text string) (id, revision string, err error) {
	name, at, _ := strings.Cut(text, "@")
	if m, err := configs.LoadModel(name); err == nil {
		if m.Weights == model.Embedded {
			return "", "", fail.Usage(fmt.Errorf("model %s is part of the program: there is nothing to download", m.Name), "swarm up --model "+m.Name)
		}
		if text = m.Weights; at != "" {
			text += "@" + at
		}
	}
	if id, revision, err = hub.ParseName(text); err != nil {
		return "", "", fail.Usage(err, "swarm model list")
	}
	return id, revision, nil
}

// pulled is what swarm model pull reports.
type pulled struct {
	hub.Result
	Shape configs.Shape `json:"shape"`
}

func runModelPull(ctx context.Context, g *globals, name, output string) error {
	if err := checkOutput(output); err != nil {
		return err
	}
	id, revision, err := hubName(name)
	if err != nil {
		return err
	}
	ctx, interrupts := interrupt.Notify(ctx, g.stderr, "Stopping. The same command goes on where this one stops.")
	defer interrupts.Close()
	result, err := pullModel(ctx, g, id, revision)
	if err != nil {
		return interrupt.Exit(ctx, err)
	}
	if output == "json" {
		return writeJSON(g.stdout, result)
	}
	fmt.Fprintf(g.stdout, "%s: %s, %s parameters, %s (%s downloaded)\n%s\n", id, result.Shape.Family(), units.Group(result.Shape.Parameters),
		units.Bytes(result.Bytes), units.Bytes(result.Downloaded), result.Path)
	next := result.Path
	if m, err := configs.LoadModel(id); err == nil && revision == hub.Main {
		next = m.Name
	}
	fmt.Fprintf(g.stdout, "Next: swarm up --model %s\n", next)
	return nil
}

// pullModel downloads a model and checks that the engine can load it: its architecture before the weights are downloaded, the weights
// after.
func pullModel(ctx context.Context, g *globals, id, revision string) (pulled, error) {
	client, err := hub.FromEnvironment(os.Getenv)
	if err != nil {
		return pulled{}, fail.Usage(err, "swarm model pull --help")
	}
	progress := screen.NewStatusLine(g.stderr, 10*time.Second)
	client.Progress = func(now hub.Progress) { progress.Say(pullText(id, now)) }
	result, err := client.Pull(ctx, id, revision, func(config []byte) error {
		if _, err := configs.ParseShape(config); err != nil {
			return &configs.Error{Key: "model", Value: id, Allowed: err.Error(), Source: "config.json"}
		}
		return nil
	})
	progress.End()
	if err != nil {
		return pulled{}, err
	}
	shape, err := model.Inspect(result.Path)
	if err != nil {
		return pulled{}, fmt.Errorf("model %s: %w", id, err)
	}
	slices.Sort(result.Files)
	return pulled{result, shape}, nil
}
