package main

import "github.com/spf13/cobra"

func newImportCommand(g *globals) *cobra.Command {
	return &cobra.Command{Use: "import", Hidden: true}
}
