package usage

import (
	"bytes"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sapo-swarm/swarm/internal/charset"
	"github.com/sapo-swarm/swarm/internal/screen"
)

// FitHelp fits the help of a command and of its subcommands to the terminal. Output to a pipe stays as written.
// Help of a command with many flags shows them in groups: the everyday groups, or every flag with all. Call FitHelp
// after adding all commands and flags.
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
		var text bytes.Buffer
		out := cmd.OutOrStdout()
		cmd.SetOut(&text)
		whole(cmd, args)
		cmd.SetOut(out)
		p := screen.Page(stdout)
		if p.Width == 0 {
			_, _ = io.WriteString(out, charset.Fit(text.String(), os.Environ())) // nothing to do if the reader has gone
			return
		}
		prose, usage, _ := strings.Cut(text.String(), "\nUsage:")
		p.Println(paragraphs(prose))
		for line := range strings.Lines("Usage:" + usage) {
			if strings.HasPrefix(line, "  "+root.Name()+" ") {
				// keep a command on one line, so that users can copy it
				p.Lines([]string{strings.TrimSuffix(line, "\n")})
			} else {
				p.Printf("%s", line)
			}
		}
		_ = p.Flush() // nothing to do if the reader of stdout has gone
	})
}

// paragraphs joins the lines of each paragraph, so that they can be wrapped to the terminal's width. Indented lines
// and headings stay as they are.
func paragraphs(text string) string {
	var out []string
	joins := false // whether the next line may join the previous one
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
