package main

import "github.com/spf13/cobra"

func newDashboardCommand(g *globals) *cobra.Command {
	return &cobra.Command{Use: "dashboard", Hidden: true}
}
