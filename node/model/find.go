package model

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/internal/files"
	"github.com/sapo-swarm/swarm/node/model/hub"
)

// Find returns the model of a preset, of a folder, or of a Hugging Face name with cached weights.
func Find(name string) (configs.Model, error) {
	m, err := configs.LoadModel(name)
	if err == nil {
		return m, nil
	}
	folder, called := name, filepath.Base(name)
	if _, missing := os.Stat(filepath.Join(name, "config.json")); missing != nil {
		id, revision, notID := hub.ParseName(name)
		cache, noCache := hub.Cache(os.Getenv)
		if notID != nil || noCache != nil {
			return m, err
		}
		dir, notCached := hub.Snapshot(cache, id, revision)
		if errors.Is(notCached, fs.ErrNotExist) {
			return m, err
		}
		folder, called = dir, id
	}
	text, readErr := files.ReadBounded(filepath.Join(folder, "config.json"), configs.MaxDocument)
	if readErr != nil {
		return m, fmt.Errorf("model %s: %w", name, readErr)
	}
	if folder, readErr = filepath.Abs(folder); readErr != nil {
		return m, fmt.Errorf("model folder: %w", readErr)
	}
	return configs.ParseModel(called, folder, text)
}

// Of returns the models of a resolved configuration, each once, the first node's first.
func Of(c configs.Config) ([]configs.Model, error) {
	keys := []string{c.Model}
	for _, m := range c.Members {
		if !slices.Contains(keys, m.Model) {
			keys = append(keys, m.Model)
		}
	}
	var list []configs.Model
	for _, key := range keys {
		m, err := Find(key)
		if err != nil {
			return nil, err
		}
		list = append(list, m)
	}
	return list, nil
}

// NamesFolder reports whether a name is a model's folder rather than a run.
func NamesFolder(name string) bool {
	if name == "" {
		return false
	}
	_, err := os.Stat(filepath.Join(name, "config.json"))
	return err == nil || strings.ContainsRune(name, filepath.Separator) || strings.HasPrefix(name, ".")
}
