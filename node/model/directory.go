package model

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/sapo-swarm/swarm/configs"
)

const (
	configFile  = "config.json"
	weightsFile = "model.safetensors"
	indexFile   = "model.safetensors.index.json"

	maxJSONBytes = 4 << 20 // limit for config.json and the index
)

// Inspect checks a model directory in the Hugging Face layout (config.json and *.safetensors) without reading the
// weights, and returns the model's shape. Parameters counts tied weights once. Errors fit on one line and name the
// file.
func Inspect(dir string) (configs.Shape, error) {
	info, err := os.Stat(dir)
	if err != nil {
		return configs.Shape{}, err
	}
	if !info.IsDir() {
		return configs.Shape{}, fmt.Errorf("%s is not a directory", dir)
	}
	shape, err := readShape(filepath.Join(dir, configFile))
	if err != nil {
		return configs.Shape{}, err
	}
	files, err := weightFiles(dir)
	if err != nil {
		return configs.Shape{}, err
	}
	var headers []map[string]Tensor
	for _, file := range files {
		header, err := readHeaderOf(file)
		if err != nil {
			return configs.Shape{}, fmt.Errorf("%s: %w", file, err)
		}
		headers = append(headers, header)
	}
	if err := check(shape, headers); err != nil {
		return configs.Shape{}, fmt.Errorf("%s: %w", dir, err)
	}
	return shape, nil
}

// weightFiles lists a directory's weight files: one, or the shards in the index.
func weightFiles(dir string) ([]string, error) {
	single := filepath.Join(dir, weightsFile)
	if _, err := os.Stat(single); err == nil {
		return []string{single}, nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	index := filepath.Join(dir, indexFile)
	data, err := readBounded(index)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s has no %s", dir, weightsFile)
	}
	if err != nil {
		return nil, err
	}
	var parsed struct {
		WeightMap map[string]string `json:"weight_map"`
	}
	if err := json.Unmarshal(data, &parsed); err != nil {
		return nil, fmt.Errorf("%s: %.200s", index, err)
	}
	shards := make(map[string]bool)
	for _, shard := range parsed.WeightMap {
		if filepath.Base(shard) != shard || filepath.Ext(shard) != ".safetensors" {
			return nil, fmt.Errorf("%s names %.100q, which is not a safetensors file beside it", index, shard)
		}
		shards[filepath.Join(dir, shard)] = true
	}
	if len(shards) == 0 {
		return nil, fmt.Errorf("%s names no file", index)
	}
	return slices.Sorted(maps.Keys(shards)), nil
}

func readHeaderOf(path string) (map[string]Tensor, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // read-only
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	return ReadHeader(file, info.Size())
}

// readBounded reads a file of at most maxJSONBytes.
func readBounded(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // read-only
	data, err := io.ReadAll(io.LimitReader(file, maxJSONBytes+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxJSONBytes {
		return nil, fmt.Errorf("%s is larger than %d bytes", path, maxJSONBytes)
	}
	return data, nil
}
