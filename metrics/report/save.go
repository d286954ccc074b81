package report

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/files"
)

// Save writes a report's page to a file atomically: it replaces the existing file or leaves it unchanged.
func Save(path string, page []byte) error {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return fail.Hint(fmt.Errorf("can't write %s: it is a folder", path), "--out "+filepath.Join(path, "report.html"))
	}
	err := files.Write(path, page)
	var reason *fs.PathError
	if errors.As(err, &reason) {
		return fail.Hint(fmt.Errorf("can't write %s: %w", path, reason.Err), "another file with --out, in an existing folder")
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}
