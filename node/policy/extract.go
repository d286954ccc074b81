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

// The pattern names files because go:embed drops names that begin with "_" from folders.
//
//go:embed engine/*.py
var engineFiles embed.FS

// Digest tells the engine in a folder of Extract's from others: equal digests, equal files.
func Digest(dir string) string { return filepath.Base(dir) }

// Extract writes the engine's Python files under home and returns the folder to give as Options.Dir. Its name holds the
// files' hash, so that versions live side by side; files already there are compared and mended.
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
