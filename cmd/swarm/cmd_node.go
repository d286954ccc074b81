package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/usage"
	"github.com/sapo-swarm/swarm/node"
)

// newNodeCommand makes the hidden command that runs one node's process. swarm up starts it and talks to it over stdin
// and stdout.
func newNodeCommand(g *globals) *cobra.Command {
	return &cobra.Command{
		Use:    "node",
		Short:  "Run one node for a coordinator (started by swarm up)",
		Hidden: true,
		Args:   usage.NoArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			code := node.Process(cmd.Context(), g.stdin, g.stdout, g.stderr, os.Environ(), g.logger)
			if code != fail.ExitDone {
				return fail.Exit(code)
			}
			return nil
		},
	}
}
