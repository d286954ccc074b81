// Package usage turns mistyped commands into errors with a suggestion, and fits help to the terminal. It uses cobra
// and depends on no command of this program.
package usage

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/units"
)

// parserJargon matches the start of errors of Go's number parsers.
var parserJargon = regexp.MustCompile(`(: )strconv\.Parse\w+: parsing "(?:[^"\\]|\\.)*": `)

// OnlySubcommands rejects an unknown subcommand, with exit code 2.
func OnlySubcommands(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return unknownCommand(cmd, args[0])
}

// RefuseUnknown makes the commands that cobra adds, help and completion, reject unknown names and arguments. Cobra's
// own print help and succeed. Call it after the completion command exists.
func RefuseUnknown(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	for _, cmd := range root.Commands() {
		switch cmd.Name() {
		case "help":
			cmd.Args = func(_ *cobra.Command, args []string) error {
				found, rest, err := root.Find(args)
				if err != nil || found.HasSubCommands() {
					return OnlySubcommands(found, rest)
				}
				return nil
			}
		case "completion":
			cmd.Args = OnlySubcommands
			cmd.RunE = func(cmd *cobra.Command, args []string) error { return cmd.Help() }
			for _, shell := range cmd.Commands() {
				shell.Args = NoArgs
			}
		}
	}
}

// unknownCommand returns the error for a subcommand that cmd does not have. It suggests the nearest name.
func unknownCommand(cmd *cobra.Command, name string) error {
	text := fmt.Sprintf("unknown command %q", name)
	if cmd.HasParent() {
		text += " for " + cmd.CommandPath()
	}
	try := cmd.CommandPath() + " --help"
	if near := units.Nearest(name, subcommands(cmd)); near != "" {
		text += fmt.Sprintf(": did you mean %q?", near)
		try = cmd.CommandPath() + " " + near + " --help"
	}
	return fail.Usage(errors.New(text), try)
}

// subcommands returns the names of a command's visible subcommands.
func subcommands(cmd *cobra.Command) []string {
	var names []string
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	return names
}

// FlagError rewords an error of pflag. For an unknown flag it suggests the nearest flag of the command.
func FlagError(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() == "" {
		if near := units.Nearest(unknown.GetSpecifiedName(), flagNames(cmd)); near != "" {
			return fmt.Errorf("unknown flag: --%s: did you mean --%s?", unknown.GetSpecifiedName(), near)
		}
	}
	return errors.New(parserJargon.ReplaceAllString(strings.TrimSpace(err.Error()), "$1"))
}

// flagNames returns the names of all visible flags of a command.
func flagNames(cmd *cobra.Command) []string {
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	return names
}

// NoArgs rejects arguments, with exit code 2.
func NoArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fail.Usage(fmt.Errorf("%s takes no argument %q", cmd.CommandPath(), args[0]), cmd.CommandPath()+" --help")
	}
	return nil
}

// AtMostOneName accepts at most one argument, an experiment or a run.
func AtMostOneName(cmd *cobra.Command, args []string) error {
	if len(args) > 1 {
		return fail.Usage(fmt.Errorf("%s takes one experiment or run, not %d", cmd.Name(), len(args)), cmd.CommandPath()+" --help")
	}
	return nil
}
