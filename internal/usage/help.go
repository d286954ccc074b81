package usage

import (
	"bytes"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sapo-swarm/swarm/internal/screen"
)

// FitHelp makes the help of a command and of its subcommands fit the terminal. A pipe gets it as it is written.
func FitHelp(stdout io.Writer, root *cobra.Command) {
	whole := root.HelpFunc()
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

// paragraphs joins the lines of each paragraph, so that they can be broken anew. Lines that are moved in and headings stay.
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
