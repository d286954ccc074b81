package main

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/internal/usage"
)

// helpOf returns the output of `swarm WORDS`.
func helpOf(t *testing.T, words ...string) string {
	t.Helper()
	var out, errs bytes.Buffer
	require.Zero(t, run(words, strings.NewReader(""), &out, &errs), errs.String())
	return out.String()
}

func TestEveryCommandIsInAGroup(t *testing.T) {
	for _, c := range newRootCommand(&globals{}).Commands() {
		if c.IsAvailableCommand() {
			require.NotEmpty(t, c.GroupID, "%s is in no group of `swarm --help`", c.Name())
		}
	}
}

func TestShortHelpIsAVerbPhraseOfOneLine(t *testing.T) {
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		if c.IsAvailableCommand() || !c.HasParent() {
			require.LessOrEqual(t, len(c.Short), 70, "%s: %s", c.CommandPath(), c.Short)
			require.True(t, unicode.IsUpper(rune(c.Short[0])), c.Short)
			require.False(t, strings.HasSuffix(c.Short, "."), c.Short)
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(newRootCommand(&globals{}))
}

// Every new flag of a command with many flags needs a group.
func TestEveryFlagIsInAGroup(t *testing.T) {
	for _, c := range newRootCommand(&globals{}).Commands() {
		for _, flag := range usage.Ungrouped(c, flagGroups) {
			t.Errorf("%s --%s is in no group of help_groups.go", c.CommandPath(), flag)
		}
	}
}

func TestHelpOfUpShowsTheEverydayFlags(t *testing.T) {
	everyday, all := helpOf(t, "up", "--help"), helpOf(t, "up", "--help-all")
	for _, heading := range []string{"What to train:", "Devices:", "Length and cost:", "Sharing with others:", "Watching:"} {
		require.Contains(t, everyday, "\n"+heading+"\n  swarm up ")
	}
	flags := func(text string) int { return len(regexp.MustCompile(`(?m)^ +(-\w, )?--`).FindAllString(text, -1)) }
	require.Less(t, flags(everyday), 45)
	require.Greater(t, flags(all), 90)
	require.NotContains(t, everyday, "--adam-beta1")
	require.Contains(t, all, "--adam-beta1 float                   Adam's decay of the first moment (default 0.9)")
	require.Contains(t, everyday, "Adam's learning rate (default the model's)")
	require.Contains(t, everyday, "swarm up --help-all")
	require.NotContains(t, all, "has the rest of the flags")
}

// --help-all after -- belongs to another program.
func TestHelpAllBeforeTheDashesOnly(t *testing.T) {
	args, all := usage.TakeHelpAll([]string{"run", "--", "train", "--help-all"})
	require.False(t, all)
	require.Equal(t, []string{"run", "--", "train", "--help-all"}, args)
	args, all = usage.TakeHelpAll([]string{"run", "--help-all", "--", "train"})
	require.True(t, all)
	require.Equal(t, []string{"run", "--help", "--", "train"}, args)
}

func TestExamplesOfGroupsParse(t *testing.T) {
	h := newHintChecker()
	for _, c := range h.root.Commands() {
		everyday, _ := flagGroups(c)
		for _, g := range everyday {
			if g.Example != "" {
				require.Empty(t, h.check(c.CommandPath()+" "+g.Example, h.root), "%s %s", c.CommandPath(), g.Example)
			}
		}
	}
}
