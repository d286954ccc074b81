package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/sapo-swarm/swarm/internal/fail"
)

func newManCommand() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "man --out FOLDER",
		Short: "Write a manual page for every command",
		Long: "man writes swarm.1, swarm-up.1 and so on, from the same texts as --help. `make install` puts them\n" +
			"where man finds them. A page lists every flag, as --help-all does.",
		Example: "  swarm man --out ~/.local/share/man/man1",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if dir == "" {
				return fail.Usage(fmt.Errorf("--out is missing"), "swarm man --out ~/.local/share/man/man1")
			}
			if err := os.MkdirAll(dir, 0o755); err != nil {
				return err
			}
			root := cmd.Root()
			root.DisableAutoGenTag = true
			return doc.GenManTree(root, &doc.GenManHeader{Section: "1", Source: "swarm " + version, Manual: "swarm manual"}, dir)
		},
	}
	cmd.Flags().StringVar(&dir, "out", "", "`folder` of the pages")
	return cmd
}
