package model

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
)

// embeddedModels holds a folder for each model that is part of the program.
//
//go:embed nano
var embeddedModels embed.FS

// resolveEmbedded writes an embedded model's files to <home>/models/<name>-<hash> unless they are there, and returns that
// directory. The hash is over the files, so a program with other weights uses another directory.
func resolveEmbedded(models fs.FS, name, home string) (string, error) {
	if !fs.ValidPath(name) || path.Base(name) != name || name == "." {
		return "", fmt.Errorf("model %q: no name of an embedded model", name)
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
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("model %s: %w", name, err)
	}
	for file, data := range contents {
		if err := ensureFile(filepath.Join(dir, file), data); err != nil {
			return "", fmt.Errorf("model %s: %w", name, err)
		}
	}
	return dir, nil
}

// ensureFile makes a file hold data: it is left alone when it does, and otherwise replaced in one step, so that others
// who do or read the same at the same time never see a part of it.
func ensureFile(name string, data []byte) (err error) {
	if present, err := os.ReadFile(name); err == nil && bytes.Equal(present, data) {
		return nil
	}
	temporary, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+"-*.tmp")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(temporary.Name()))
		}
	}()
	if _, err := temporary.Write(data); err != nil {
		return errors.Join(err, temporary.Close())
	}
	if err := errors.Join(temporary.Chmod(0o644), temporary.Sync(), temporary.Close()); err != nil {
		return err
	}
	return os.Rename(temporary.Name(), name)
}
