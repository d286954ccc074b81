package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"

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

// nameIn is the argument, empty where there is none.
func nameIn(args []string) string {
	if len(args) == 0 {
		return ""
	}
	return args[0]
}
