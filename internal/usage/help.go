package usage

import (
	"bytes"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sapo-swarm/swarm/internal/screen"
)

// FitHelp makes the help of a command and of its subcommands fit the terminal. A pipe gets it as it is written. Flags
// of a command with many are shown in groups: the everyday ones, or with all every flag. FitHelp is called when all
// commands and their flags are there.
func FitHelp(stdout io.Writer, root *cobra.Command, groups Groups, all bool) {
	for _, c := range root.Commands() {
		if ownFlags(c) > manyFlags {
			c.Flags().Bool(helpAllFlag, false, "show every flag")
		}
	}
	plain := root.HelpFunc()
	whole := func(cmd *cobra.Command, args []string) {
		if hasMany(cmd) {
			printGroups(cmd.OutOrStdout(), cmd, groups, all)
		} else {
			plain(cmd, args)
		}
	}
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		p := screen.Page(stdout)
		if p.Width == 0 {
			whole(cmd, args)
			return
		}
		var text bytes.Buffer
		out := cmd.OutOrStdout()
		cmd.SetOut(&text)
		whole(cmd, args)
		cmd.SetOut(out)
		prose, usage, _ := strings.Cut(text.String(), "\nUsage:")
		p.Println(paragraphs(prose))
		for line := range strings.Lines("Usage:" + usage) {
			if strings.HasPrefix(line, "  "+root.Name()+" ") {
				p.Lines([]string{strings.TrimSuffix(line, "\n")}) // a command stays whole, so that it can be copied
			} else {
				p.Printf("%s", line)
			}
		}
		_ = p.Flush() // a reader of stdout who has gone wants no help
	})
}

// paragraphs joins the lines of each paragraph, so that they can be broken anew. Lines that are moved in and headings
// stay.
func paragraphs(text string) string {
	var out []string
	joins := false // the line before can be joined to
	for _, line := range strings.Split(text, "\n") {
		prose := line != "" && line[0] != ' '
		if prose && joins {
			out[len(out)-1] += " " + line
		} else {
			out = append(out, line)
		}
		joins = prose
	}
	return strings.Join(out, "\n")
}
