package model

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"github.com/sapo-swarm/swarm/internal/files"
)

// embeddedModels holds a folder for each model that is part of the program.
//
//go:embed nano micro
var embeddedModels embed.FS

// resolveEmbedded writes an embedded model's files to <home>/models/<name>-<hash> unless they exist, and returns
// that directory. The hash covers the files, so that a program with other weights uses another directory.
func resolveEmbedded(models fs.FS, name, home string) (string, error) {
	if !fs.ValidPath(name) || path.Base(name) != name || name == "." {
		return "", fmt.Errorf("model %q: not an embedded model", name)
	}
	contents := make(map[string][]byte)
	hash := sha256.New()
	for _, file := range []string{configFile, weightsFile} {
		data, err := fs.ReadFile(models, path.Join(name, file))
		if errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("model %s: this program was built without its %s. Try: swarm pretrain, or --model DIR", name, file)
		}
		if err != nil {
			return "", fmt.Errorf("model %s: %w", name, err)
		}
		contents[file] = data
		fmt.Fprintf(hash, "%s %d\n", file, len(data))
		hash.Write(data)
	}
	dir := filepath.Join(home, "models", name+"-"+hex.EncodeToString(hash.Sum(nil))[:16])
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("model %s: %w", name, err)
	}
	for file, data := range contents {
		if err := files.Ensure(filepath.Join(dir, file), data); err != nil {
			return "", fmt.Errorf("model %s: %w", name, err)
		}
	}
	return dir, nil
}
