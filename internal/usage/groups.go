package usage

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// manyFlags is the number of own flags above which a command's help shows groups, and some of them only with
// --help-all.
const manyFlags = 15

// helpAllFlag is the flag that shows help with every flag.
const helpAllFlag = "help-all"

// others is the heading for flags that belong to no group.
const others = "Other"

// Group is a group of flags in a command's help.
type Group struct {
	Title   string
	Example string // arguments of an example, after "swarm COMMAND "; empty: none
	Flags   []string
}

// Groups returns a command's groups of flags: those that most users need, and the rest, which only --help-all
// shows.
type Groups func(cmd *cobra.Command) (everyday, rest []Group)

// Defaulted is a flag's value whose default is set elsewhere, as in a configuration key.
type Defaulted interface {
	DefaultText() string // empty: help shows no default
}

// ownFlags returns how many visible flags a command defines. Call it before FitHelp adds --help-all and cobra adds
// the parents' flags.
func ownFlags(cmd *cobra.Command) (n int) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden && f.Name != "help" {
			n++
		}
	})
	return n
}

// hasMany reports whether help shows the command's flags in groups, because FitHelp found more than manyFlags.
func hasMany(cmd *cobra.Command) bool { return cmd.Flags().Lookup(helpAllFlag) != nil }

// shownGroups returns the groups to show in a command's help. Each flag of the command appears only in the first
// group that names it. With all, a last group has the flags that no group names, so that --help-all shows every
// flag.
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

// Ungrouped returns the flags that no group names, for a command with more than manyFlags.
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

// printGroups prints the help of a command with many flags.
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

// flagUsages returns the usage of the named flags, in that order, with the defaults of configuration keys.
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

// TakeHelpAll replaces --help-all with --help in args and reports whether it was present. It ignores words after
// --, which belong to another program.
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
