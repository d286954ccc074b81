package model

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/sapo-swarm/swarm/node/model/hub"
)

// MissingError reports that a model of the hub is missing or incomplete in this machine's cache. A download repairs
// it.
type MissingError struct {
	ID     string // canonical id
	Reason string
}

func (e *MissingError) Error() string {
	return fmt.Sprintf("model %s %s. Try: swarm model pull %s, or --model DIR", e.ID, e.Reason, e.ID)
}

// resolveHub finds a model in the Hugging Face cache of this machine, without downloading.
func resolveHub(id string, ownTokenizer bool) (string, error) {
	cache, err := hub.Cache(os.Getenv)
	if err != nil {
		return "", fmt.Errorf("model %s: %w", id, err)
	}
	missing := func(reason string) error { return &MissingError{hub.CanonicalID(id), reason} }
	dir, err := hub.Snapshot(cache, id, hub.Main)
	if errors.Is(err, fs.ErrNotExist) {
		return "", missing("isn't in the Hugging Face cache, " + cache)
	}
	if err == nil {
		_, err = Inspect(dir)
	}
	if err != nil {
		return "", missing(fmt.Sprintf("in the Hugging Face cache: %v", err))
	}
	if _, err := os.Stat(filepath.Join(dir, tokenizerFile)); ownTokenizer && err != nil {
		return "", missing(fmt.Sprintf("in the Hugging Face cache has no %s", tokenizerFile))
	}
	return dir, nil
}
