package policy

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"

	"github.com/sapo-swarm/swarm/internal/files"
)

// engineFiles are the engine's files. The pattern names files because go:embed skips names that begin with "_" in
// folders.
//
//go:embed engine/*.py
var engineFiles embed.FS

// Digest identifies the engine files in a folder from Extract: equal digests mean equal files.
func Digest(dir string) string { return filepath.Base(dir) }

// Extract writes the engine's Python files under home and returns the folder for Options.Dir. Its name contains the
// files' hash, so that several versions can coexist. It compares existing files and repairs them.
func Extract(home string) (string, error) {
	entries, err := engineFiles.ReadDir("engine")
	if err != nil {
		return "", fmt.Errorf("embedded engine: %w", err)
	}
	sum := sha256.New()
	sources := map[string][]byte{}
	for _, entry := range entries {
		data, err := engineFiles.ReadFile("engine/" + entry.Name())
		if err != nil {
			return "", fmt.Errorf("embedded engine: %w", err)
		}
		sources[entry.Name()] = data
		fmt.Fprintf(sum, "%s %d\n", entry.Name(), len(data))
		sum.Write(data)
	}
	dir := filepath.Join(home, "engine", hex.EncodeToString(sum.Sum(nil))[:16])
	if err := os.MkdirAll(filepath.Join(dir, "engine"), 0o700); err != nil {
		return "", fmt.Errorf("engine folder: %w", err)
	}
	for name, data := range sources {
		if err := files.Ensure(filepath.Join(dir, "engine", name), data); err != nil {
			return "", fmt.Errorf("write the engine's files: %w", err)
		}
	}
	return dir, nil
}
