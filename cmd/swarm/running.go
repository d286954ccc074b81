package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/layout"
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

// openReader opens the database for reading: the home's, or the one that --database names.
func (g *globals) openReader(ctx context.Context) (*store.Reader, error) {
	if g.databaseFile != "" {
		return openDatabaseFile(ctx, g.databaseFile)
	}
	return lifecycle.OpenReader(ctx, g.home)
}

// atMostOneName is the Args of commands that take an experiment or a run, or nothing.
func atMostOneName(cmd *cobra.Command, args []string) error {
	if len(args) > 1 {
		return fail.Usage(fmt.Errorf("%s takes one experiment or run, not %d", cmd.Name(), len(args)), cmd.CommandPath()+" --help")
	}
	return nil
}

func nameIn(args []string) string {
	if len(args) == 0 {
		return ""
	}
	return args[0]
}
