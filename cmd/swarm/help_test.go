package main

import (
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"
	"github.com/stretchr/testify/require"
)

func TestHelpFitsTheTerminal(t *testing.T) {
	t.Setenv("COLUMNS", "80")
	for _, command := range []string{"", "up", "compare", "rm", "model prompt"} {
		var out strings.Builder
		root := newRootCommand(&globals{stdout: &out, stderr: &out})
		root.SetArgs(append(strings.Fields(command), "--help"))
		root.SetOut(&out)
		require.NoError(t, root.Execute())
		require.Contains(t, out.String(), "\nUsage:\n")
		require.Contains(t, out.String(), "--python string")
		require.NotContains(t, out.String(), "\n\n\n")
		for _, line := range strings.Split(out.String(), "\n") {
			if strings.Contains(strings.TrimSpace(line), " ") && !strings.HasPrefix(line, "  swarm ") { // single words and commands can't be broken
				require.LessOrEqual(t, ansi.StringWidth(line), 80, "%s --help: %s", command, line)
			}
		}
	}
}
