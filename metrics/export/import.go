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

// Import imports the runs of another home into database, from that home's database or an export of it. A dry run does
// not create a home.
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
