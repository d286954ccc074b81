package main

import "github.com/spf13/cobra"

func newReportCommand(g *globals) *cobra.Command {
	return &cobra.Command{Use: "report", Hidden: true}
}
