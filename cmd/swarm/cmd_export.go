package main

import "github.com/spf13/cobra"

func newExportCommand(g *globals) *cobra.Command {
	return &cobra.Command{Use: "export", Hidden: true}
}
