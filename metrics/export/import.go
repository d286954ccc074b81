package export

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/sapo-swarm/swarm/metrics/store"
)

// Import takes over the runs of another home, from its database or from an export of it, into database. A dry run
// leaves no home behind.
func Import(ctx context.Context, from *store.Reader, database string, dry bool, logger *slog.Logger) (runs []store.ImportedRun, err error) {
	if _, missing := os.Stat(database); dry && errors.Is(missing, fs.ErrNotExist) {
		dir, err := os.MkdirTemp("", "swarm-import-")
		if err != nil {
			return nil, fmt.Errorf("import: %w", err)
		}
		defer os.RemoveAll(dir)
		database = filepath.Join(dir, "swarm.db")
	}
	s, err := store.Open(ctx, database, store.Options{Warn: store.LogNews(logger)})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	return s.ImportRuns(ctx, from, dry)
}
