package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/sapo-swarm/swarm/internal/usage"
	"github.com/sapo-swarm/swarm/launcher/runs"
	"github.com/sapo-swarm/swarm/metrics/store"
)

type attachOptions struct {
	interval time.Duration
	output   string
}

func newAttachCommand(g *globals) *cobra.Command {
	var o attachOptions
	cmd := &cobra.Command{
		Use:   "attach [EXPERIMENT or RUN]",
		Short: "Follow a run in its live view",
		Long: "attach shows what `swarm up` shows, from another terminal or after `up --detach`: a live view on a\n" +
			"terminal, lines elsewhere. q or Ctrl-C leaves it, and the run continues. ? lists the keys. When the\n" +
			"run ends, attach prints its summary and exits as `up` does. Without a name it follows the running\n" +
			"run, else the newest.",
		Example: `  swarm attach
  swarm attach 4loc4ext-1 && echo done`,
		Args: usage.AtMostOneName,
		RunE: func(cmd *cobra.Command, args []string) error {
			return runAttach(cmd.Context(), g, nameIn(args), &o)
		},
	}
	addInterval(cmd, &o.interval)
	addLinesFlag(cmd.Flags(), &o.output, "one status")
	return cmd
}

func runAttach(ctx context.Context, g *globals, name string, o *attachOptions) error {
	if err := checkOutput(o.output); err != nil {
		return err
	}
	if err := checkInterval(o.interval); err != nil {
		return err
	}
	reader, err := g.openReader(ctx)
	if err != nil {
		return err
	}
	defer reader.Close()
	return watch(ctx, g, reader, name, o.interval, o.output)
}

// watch shows a run until it ends.
func watch(ctx context.Context, g *globals, reader *store.Reader, name string, interval time.Duration, output string) error {
	w, err := runs.Find(ctx, reader, name, g.viewer())
	if err != nil {
		return err
	}
	return w.Show(ctx, interval, output == "json")
}

// viewer returns a runs.Viewer with this process's streams and settings.
func (g *globals) viewer() runs.Viewer {
	return runs.Viewer{Home: g.home, Stdin: g.stdin, Stdout: g.stdout, Stderr: g.stderr, Interactive: g.interactive(), Advice: g.advice()}
}
