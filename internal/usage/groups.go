package usage

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// manyFlags is the number of flags of its own above which a command's help shows groups, and the rest only with
// --help-all.
const manyFlags = 15

// helpAllFlag stands for --help with every flag.
const helpAllFlag = "help-all"

// others is the heading of flags that no group names.
const others = "Other"

// Group is a heading of a command's help.
type Group struct {
	Title   string
	Example string // what follows "swarm COMMAND "; empty: none
	Flags   []string
}

// Groups are a command's groups of flags: those that most people need, and the rest, which --help-all shows too.
type Groups func(cmd *cobra.Command) (everyday, rest []Group)

// Defaulted is a flag's value whose default is not in the flag.
type Defaulted interface {
	DefaultText() string // empty: nothing to say
}

// ownFlags is how many flags of its own a command has, before FitHelp adds one and cobra those of its parents.
func ownFlags(cmd *cobra.Command) (n int) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden && f.Name != "help" {
			n++
		}
	})
	return n
}

// hasMany tells whether the command's flags are shown in groups: whether FitHelp found more than manyFlags.
func hasMany(cmd *cobra.Command) bool { return cmd.Flags().Lookup(helpAllFlag) != nil }

// shownGroups are the groups of a command's help, each with the flags that the command has and that no group before
// has. With all, those that no group names come last, so that --help-all never leaves out a flag.
func shownGroups(cmd *cobra.Command, groups Groups, all bool) []Group {
	listed, rest := groups(cmd)
	if all {
		listed = slices.Concat(listed, rest)
	}
	taken := map[string]bool{"help": true, helpAllFlag: true}
	flags := cmd.LocalNonPersistentFlags()
	var shown []Group
	for _, group := range listed {
		var names []string
		for _, name := range group.Flags {
			if f := flags.Lookup(name); f != nil && !f.Hidden && !taken[name] {
				names = append(names, name)
				taken[name] = true
			}
		}
		if len(names) > 0 {
			shown = append(shown, Group{group.Title, group.Example, names})
		}
	}
	var left []string
	flags.VisitAll(func(f *pflag.Flag) {
		if !f.Hidden && !taken[f.Name] {
			left = append(left, f.Name)
		}
	})
	if all && len(left) > 0 {
		shown = append(shown, Group{Title: others, Flags: left})
	}
	return shown
}

// Ungrouped are the flags of a command with many that no group names.
func Ungrouped(cmd *cobra.Command, groups Groups) []string {
	if !hasMany(cmd) {
		return nil
	}
	shown := shownGroups(cmd, groups, true)
	if last := shown[len(shown)-1]; last.Title == others {
		return last.Flags
	}
	return nil
}

// printGroups writes the help of a command with many flags.
func printGroups(w io.Writer, cmd *cobra.Command, groups Groups, all bool) {
	fmt.Fprintf(w, "%s\n\nUsage:\n  %s\n", strings.TrimRight(cmd.Long, "\n "), cmd.UseLine())
	if cmd.HasExample() {
		fmt.Fprintf(w, "\nExamples:\n%s\n", cmd.Example)
	}
	for _, group := range shownGroups(cmd, groups, all) {
		fmt.Fprintf(w, "\n%s:\n", group.Title)
		if group.Example != "" {
			fmt.Fprintf(w, "  %s %s\n", cmd.CommandPath(), group.Example)
		}
		fmt.Fprint(w, flagUsages(cmd.Flags(), group.Flags))
	}
	fmt.Fprint(w, "\nEvery command:\n", flagUsages(cmd.Flags(), []string{"help", helpAllFlag}), cmd.InheritedFlags().FlagUsages())
	if !all {
		fmt.Fprintf(w, "\n%s --%s has the rest of the flags.\n", cmd.CommandPath(), helpAllFlag)
	}
}

// flagUsages is the usage of these flags in their order, with the defaults of configuration keys.
func flagUsages(flags *pflag.FlagSet, names []string) string {
	set := pflag.NewFlagSet("", pflag.ContinueOnError)
	set.SortFlags = false
	for _, name := range names {
		f := flags.Lookup(name)
		if f == nil {
			continue
		}
		shown := *f
		if value, ok := f.Value.(Defaulted); ok && !strings.Contains(f.Usage, "(default") {
			if d := value.DefaultText(); d != "" {
				shown.Usage += " (default " + d + ")"
			}
		}
		set.AddFlag(&shown)
	}
	return set.FlagUsages()
}

// TakeHelpAll replaces --help-all by --help, and tells whether it was there. Words after -- are another program's.
func TakeHelpAll(args []string) ([]string, bool) {
	for i, arg := range args {
		switch arg {
		case "--":
			return args, false
		case "--" + helpAllFlag:
			return slices.Concat(args[:i], []string{"--help"}, args[i+1:]), true
		}
	}
	return args, false
}
