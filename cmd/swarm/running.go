package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"

	"github.com/sapo-swarm/swarm/internal/layout"
	"github.com/sapo-swarm/swarm/launcher/commandline"
	"github.com/sapo-swarm/swarm/launcher/lifecycle"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// invocation is how this user would type the program's name and its home.
func (g *globals) invocation() string {
	program := os.Args[0]
	if !strings.Contains(program, "/") {
		program = "swarm"
	}
	if def, err := filepath.Abs(layout.Default(os.Getenv)); err != nil || def != string(g.home) {
		program += " --home " + string(g.home)
	}
	return program
}

// grammar tells how the program reads arguments.
func grammar() commandline.Grammar {
	return commandline.Grammar{Flags: commandFlags, Name: commandName}
}

// advice names commands to type next.
func (g *globals) advice() commandline.Advice {
	return commandline.Advice{Program: g.invocation(), Grammar: grammar(), Sources: configSources}
}

// commandFlags are the flags of the command that the arguments name.
func commandFlags(args []string) *pflag.FlagSet {
	root := newRootCommand(&globals{})
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	if cmd, _, err := root.Find(args); err == nil {
		flags.AddFlagSet(cmd.Flags())
	}
	flags.AddFlagSet(root.PersistentFlags())
	return flags
}

// commandName is the command that the arguments name, such as up; empty where they name none.
func commandName(args []string) string {
	cmd, _, err := newRootCommand(&globals{}).Find(args)
	if err != nil || !cmd.HasParent() {
		return ""
	}
	return cmd.Name()
}

// openReader opens the database for reading: the home's, or the one that --database names.
func (g *globals) openReader(ctx context.Context) (*store.Reader, error) {
	if g.databaseFile != "" {
		return openDatabaseFile(ctx, g.databaseFile)
	}
	return lifecycle.OpenReader(ctx, g.home)
}

// nameIn is the argument, empty where there is none.
func nameIn(args []string) string {
	if len(args) == 0 {
		return ""
	}
	return args[0]
}
