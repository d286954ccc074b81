package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/interrupt"
	"github.com/sapo-swarm/swarm/internal/screen"
	"github.com/sapo-swarm/swarm/internal/table"
	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/internal/usage"
	"github.com/sapo-swarm/swarm/launcher/coordinator"
	"github.com/sapo-swarm/swarm/launcher/fit"
	"github.com/sapo-swarm/swarm/launcher/plan"
	"github.com/sapo-swarm/swarm/launcher/recorded"
	"github.com/sapo-swarm/swarm/metrics/store"
	"github.com/sapo-swarm/swarm/node/model"
	"github.com/sapo-swarm/swarm/node/policy"
)

func newModelCommand(g *globals) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "model",
		Short: "Download, list, show and save models, or ask one a question",
		Args:  usage.OnlySubcommands,
		RunE:  func(cmd *cobra.Command, args []string) error { return cmd.Help() },
	}
	pull := &cobra.Command{
		Use: "pull NAME[@REVISION]", Short: "Download a model from the Hugging Face hub",
		Args: arguments("one model's name", 1, "swarm model list"),
		Long: "pull downloads a model's configuration, weights (safetensors) and tokenizer into the Hugging Face\n" +
			"cache, where transformers finds them too. Existing files are not downloaded again, and an\n" +
			"interrupted download resumes. Size and hash of every file are checked. NAME is a preset or a name of\n" +
			"the hub. HF_HOME or HF_HUB_CACHE set the cache, HF_ENDPOINT a mirror, HF_TOKEN opens private or\n" +
			"gated models, HTTPS_PROXY is respected.",
		Example: "  swarm model pull gpt2\n  swarm model pull Qwen/Qwen2.5-0.5B-Instruct",
		RunE:    func(cmd *cobra.Command, args []string) error { return runModelPull(cmd.Context(), g, args[0], output) },
	}
	list := &cobra.Command{
		Use: "list", Short: "List the presets and the cached models that the engine can train", Args: usage.NoArgs,
		RunE: func(cmd *cobra.Command, args []string) error { return runModelList(g, output) },
	}
	show := &cobra.Command{
		Use: "show NAME or DIR", Short: "Show a model's shape, parameters and memory",
		Args: arguments("one model's name or folder", 1, "swarm model list"),
		RunE: func(cmd *cobra.Command, args []string) error { return runModelShow(g, args[0], output) },
	}
	var best bool
	var bestNode, dtype string
	save := &cobra.Command{
		Use: "save RUN NODE DIR | save RUN DIR --best", Short: "Write a trained node's model as a Hugging Face folder",
		Args: func(cmd *cobra.Command, args []string) error {
			switch {
			case best:
				return arguments("a run and a folder with --best", 2, "--node node_0 for one node, or swarm model save --help")(cmd, args)
			case cmd.Flags().Changed("node"):
				return fail.Usage(errors.New("--node is for --best: without it the node is an argument"), "swarm model save --help")
			}
			return arguments("a run, a node and a folder", 3, "swarm model save --help")(cmd, args)
		},
		Long: "save writes the weights of a node's newest checkpoint as a folder that transformers and --model\n" +
			"open: config.json, weights as model.safetensors, and the tokenizer, as the base model's files or, if\n" +
			"it has none, as files of the tokenizer that training used. RUN is a run or an experiment, whose\n" +
			"newest run counts. NODE is a node's name, such as node_0, or its number. DIR must be new or empty.\n\n" +
			"--dtype bfloat16 or float16 rounds the weights, and halves the file.\n\n" +
			"--best writes the best weights that the run's nodes have kept, by their validation questions, of the\n" +
			"best node or of --node. Nodes keep them in a run with --validation-questions.",
		Example: "  swarm model save 4loc4ext-1 node_0 ./trained\n  swarm model save 4loc4ext 3 ./trained\n" +
			"  swarm model save 4loc4ext ./trained --best",
		RunE: func(cmd *cobra.Command, args []string) error {
			if best {
				return runModelSave(cmd.Context(), g, args[0], bestNode, args[1], dtype, output, recorded.SaveBest)
			}
			return runModelSave(cmd.Context(), g, args[0], args[1], args[2], dtype, output, saveNewest)
		},
	}
	save.Flags().BoolVar(&best, "best", false, "write the best weights by validation instead of the newest checkpoint's")
	save.Flags().StringVar(&dtype, "dtype", policy.Float32, "`type` of the written weights: "+units.List(policy.DTypes(), "or"))
	_ = save.RegisterFlagCompletionFunc("dtype", cobra.FixedCompletions(policy.DTypes(), cobra.ShellCompDirectiveNoFileComp))
	save.Flags().StringVar(&bestNode, "node", "", "with --best: the `node` whose best weights to write (default: the best node's)")
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

// arguments requires exactly n positional arguments.
func arguments(what string, n int, try string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != n {
			return fail.Usage(fmt.Errorf("%s takes %s, not %d arguments", cmd.CommandPath(), what, len(args)), try)
		}
		return nil
	}
}

func runModelList(g *globals, output string) error {
	if err := checkOutput(output); err != nil {
		return err
	}
	rows, err := model.List()
	if err != nil {
		return err
	}
	if output == "json" {
		return writeJSON(g.stdout, rows)
	}
	return screen.Print(g.stdout, func(p *table.Page) { p.Table(model.Table(rows)) })
}

func runModelShow(g *globals, name, output string) error {
	if err := checkOutput(output); err != nil {
		return err
	}
	m, err := model.Find(name)
	if err != nil {
		return err
	}
	memory := model.MemoryOf(m)
	node, err := plan.NodeMemoryOf(m)
	if err != nil {
		return err
	}
	if output == "json" {
		return writeJSON(g.stdout, struct {
			configs.Model
			Memory model.Memory    `json:"memory"`
			Node   plan.NodeMemory `json:"node_memory"`
		}{m, memory, node})
	}
	return screen.Print(g.stdout, func(p *table.Page) {
		model.Print(p, m, memory)
		for _, on := range []struct {
			name string
			need fit.Footprint
		}{{"GPU node", node.CUDA}, {"CPU node", node.CPU}} {
			p.Printf("%-12s%s, and at least %s more while it computes (estimate; swarm plan)\n", on.name, units.Bytes(on.need.Resident), units.Bytes(on.need.Transient))
		}
	})
}

func runModelPull(ctx context.Context, g *globals, name, output string) error {
	if err := checkOutput(output); err != nil {
		return err
	}
	id, revision, err := model.HubName(name)
	if err != nil {
		return err
	}
	ctx, interrupts := interrupt.Notify(ctx, g.stderr, "Stopping. The same command resumes the download.")
	defer interrupts.Close()
	result, err := model.Pull(ctx, g.stderr, id, revision)
	if err != nil {
		return interrupt.Exit(ctx, err)
	}
	if output == "json" {
		return writeJSON(g.stdout, result)
	}
	result.Print(g.stdout, id, revision)
	return nil
}

// ensureModels makes the weights of all models available, and returns their folders by the models' keys.
func ensureModels(ctx context.Context, g *globals, p plan.Planned, yes bool) (map[string]string, error) {
	dirs := map[string]string{}
	for _, m := range p.All() {
		dir, err := model.Ensure(ctx, m, string(g.home), g.stdin, g.stderr, yes)
		if err != nil {
			return nil, err
		}
		dirs[m.Key()] = dir
	}
	return dirs, nil
}

// saver writes the weights of a run's node as a folder.
type saver func(ctx context.Context, h plan.Host, run store.Run, node, dir, dtype string) (recorded.Saved, error)

// saveNewest writes the weights of a node's newest checkpoint.
func saveNewest(ctx context.Context, h plan.Host, run store.Run, node, dir, dtype string) (recorded.Saved, error) {
	name, err := recorded.NodeName(h.Home, run, node)
	if err != nil {
		return recorded.Saved{}, err
	}
	return recorded.Save(ctx, h, run, name, dir, dtype)
}

func runModelSave(ctx context.Context, g *globals, runName, nodeName, dir, dtype, output string, save saver) error {
	if err := checkOutput(output); err != nil {
		return err
	}
	if !slices.Contains(policy.DTypes(), dtype) {
		return &configs.Error{Key: "dtype", Value: dtype, Allowed: units.List(policy.DTypes(), "or")}
	}
	dir, err := recorded.EmptyFolder(dir)
	if err != nil {
		return err
	}
	run, err := recorded.OpenReader(g.openReader).Run(ctx, runName)
	if err != nil {
		return err
	}
	if err := coordinator.ForeignNodes(run); err != nil {
		return err
	}
	ctx, interrupts := interrupt.Notify(ctx, g.stderr, "Stopping.")
	defer interrupts.Close()
	saved, err := save(ctx, g.planHost(), run, nodeName, dir, dtype)
	if err != nil {
		return interrupt.Exit(ctx, err)
	}
	if output == "json" {
		return writeJSON(g.stdout, saved)
	}
	saved.Print(g.stdout)
	return nil
}
