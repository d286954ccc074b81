package main

import (
	"context"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/sapo-swarm/swarm/launcher/runs"
)

func newLogsCommand(g *globals) *cobra.Command {
	var o runs.LogOptions
	var output string
	cmd := &cobra.Command{
		Use:   "logs [EXPERIMENT or RUN] [NODE...] | JOB",
		Short: "Print or follow the logs of a run or a job",
		Long: "logs prints the logs of the coordinator and every node in order of time, or those of the nodes\n" +
			"named, of the newest run by default. Each line begins with its source. -f follows until the run\n" +
			"ends. For a job of `swarm run` it prints the command's output.",
		Example: `  swarm logs -f
  swarm logs node_3 -n 50
  swarm logs 4loc4ext-1 coordinator`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return runLogs(cmd.Context(), g, args, &o, output)
		},
	}
	cmd.Flags().BoolVarP(&o.Follow, "follow", "f", false, "follow new output until the run ends")
	cmd.Flags().VarP(&o.Lines, "lines", "n", "number of newest lines of each log, or all (all by default, "+strconv.Itoa(runs.FollowedLines)+" with -f)")
	addLinesFlag(cmd.Flags(), &output, "one log line")
	return cmd
}

func runLogs(ctx context.Context, g *globals, args []string, o *runs.LogOptions, output string) error {
	if err := checkOutput(output); err != nil {
		return err
	}
	reader, err := g.openReader(ctx)
	if err != nil {
		return err
	}
	defer reader.Close()
	o.Home, o.Out, o.Stderr, o.JSON = g.home, g.stdout, g.stderr, output == "json"
	return runs.Logs(ctx, reader, args, o)
}
