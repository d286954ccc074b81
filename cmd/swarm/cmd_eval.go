package main

import "github.com/spf13/cobra"

func newEvalCommand(g *globals) *cobra.Command {
	return &cobra.Command{Use: "eval", Hidden: true}
}
