package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/spf13/pflag"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// addDatabaseFlag adds --database to a command that only reads recorded runs.
func addDatabaseFlag(f *pflag.FlagSet, g *globals) {
	f.StringVar(&g.databaseFile, "database", "", "`file` to read instead of the home's database: an export in format sqlite, also compressed (.gz)")
}

// openDatabaseFile opens the file of --database. A file that is not a swarm database is a usage error.
func openDatabaseFile(ctx context.Context, path string) (*store.Reader, error) {
	reader, err := store.OpenFile(ctx, path)
	var bad *store.Error
	var reason *fs.PathError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, &configs.Error{Key: "database", Value: path, Problem: fmt.Sprintf("database %q does not exist", path), Allowed: "a database's file"}
	case errors.As(err, &bad):
		return nil, &configs.Error{Key: "database", Value: path, Problem: bad.Error(),
			Allowed: "a file of swarm export --format sqlite, or another home's swarm.db"}
	case errors.As(err, &reason):
		return nil, &configs.Error{Key: "database", Value: path, Problem: fmt.Sprintf("can't read %s: %v", path, reason.Err), Allowed: "a database's file"}
	}
	return reader, err
}
