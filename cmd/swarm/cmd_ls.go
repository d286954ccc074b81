package main

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/screen"
	"github.com/sapo-swarm/swarm/internal/table"
	"github.com/sapo-swarm/swarm/launcher/lifecycle"
	"github.com/sapo-swarm/swarm/launcher/runs"
)

// listedMost is the number of runs that swarm ls prints by default.
const listedMost = 20

func newLsCommand(g *globals) *cobra.Command {
	var o runs.ListOptions
	var output string
	cmd := &cobra.Command{
		Use:     "ls [EXPERIMENT or RUN...]",
		Aliases: []string{"list"},
		Short:   "List runs: state, rounds, nodes, age, size on disk",
		Long: "ls lists the recorded runs, the newest first, and below them the jobs of `swarm run`. AGE is the\n" +
			"time since a run ended or was last seen. SIZE is the size of its folder: checkpoints, journals,\n" +
			"logs. An imported run has no folder. Without --all or --limit it shows the newest 20. With -o json\n" +
			"it lists all of them.",
		Example: `  swarm ls
  swarm ls 4loc4ext --state crashed,stopped
  swarm ls --all -o json | jq -r '.runs[] | select(.size_bytes > 1e9) | .run'`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.All && cmd.Flags().Changed("limit") {
				return fail.Usage(errors.New("--all and --limit exclude each other"), "one of them")
			}
			o.All = o.All || output == "json" && !cmd.Flags().Changed("limit")
			o.Names = args
			return runLs(cmd.Context(), g, o, output)
		},
	}
	f := cmd.Flags()
	f.StringSliceVar(&o.States, "state", nil, "only runs in these `states`: "+strings.Join(lifecycle.States, ", "))
	f.IntVarP(&o.Limit, "limit", "n", listedMost, "show the newest `N`")
	f.BoolVarP(&o.All, "all", "a", false, "show all")
	addOutputFlag(f, &output)
	return cmd
}

func runLs(ctx context.Context, g *globals, o runs.ListOptions, output string) error {
	if err := errors.Join(checkOutput(output), lifecycle.CheckStates(o.States)); err != nil {
		return err
	}
	if err := o.Check(); err != nil {
		return err
	}
	listing, err := runs.List(ctx, g.home, o)
	if err != nil {
		return err
	}
	if output == "json" {
		return writeJSON(g.stdout, listing)
	}
	return screen.Print(g.stdout, func(p *table.Page) { listing.Print(p, g.home, o.States) })
}
