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
		Long: "logs prints the coordinator's log and every node's, put together by time, or those of the nodes named; without a run those of the\n" +
			"newest. Each line begins with whose it is. -f goes on until the run ends. Of a job of swarm run it prints what its command printed.",
		Example: `  swarm logs -f
  swarm logs node_3 -n 50
  swarm logs 4loc4ext-1 coordinator`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return runLogs(cmd.Context(), g, args, &o, output)
		},
	}
	cmd.Flags().BoolVarP(&o.Follow, "follow", "f", false, "go on with what is written, until the run ends")
	cmd.Flags().VarP(&o.Lines, "lines", "n", "newest lines of each log, or all (all by default, "+strconv.Itoa(runs.FollowedLines)+" with -f)")
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
