package plan

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/sapo-swarm/swarm/configs"
)

// InputHashes returns SHA-256 sums of what a run reads besides its configuration, by name: the model's initial
// weights, and files of questions and words. With other inputs, a resumed run would be another experiment under the
// same name.
func InputHashes(ctx context.Context, modelDir string, tasks configs.Tasks) (map[string]string, error) {
	var weights []string
	var err error
	if modelDir != "" {
		weights, err = filepath.Glob(filepath.Join(escapeGlob(modelDir), "*.safetensors"))
	}
	if err != nil {
		return nil, fmt.Errorf("weights in %s: %w", modelDir, err)
	}
	slices.Sort(weights)
	hashes := map[string]string{}
	for name, files := range map[string][]string{"model": weights, "tasks.file": {tasks.File}, "tasks.words": {tasks.Words}} {
		sum := sha256.New()
		for _, path := range files {
			if path == "" {
				continue
			}
			if err := hashFile(ctx, sum, path); err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			hashes[name] = hex.EncodeToString(sum.Sum(nil))
		}
	}
	return hashes, nil
}

// hashFile adds a file to sum. It stops when ctx ends, because the weights of a large model take a while.
func hashFile(ctx context.Context, sum io.Writer, path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	buffer := make([]byte, 1<<20)
	for ctx.Err() == nil {
		n, err := file.Read(buffer)
		sum.Write(buffer[:n])
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return context.Cause(ctx)
}
