package model

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// hubID is what the Hugging Face hub allows as a model's name, with or without its owner.
var hubID = regexp.MustCompile(`^[A-Za-z0-9][\w.-]{0,95}(/[A-Za-z0-9][\w.-]{0,95})?$`)

// revision is a commit's hash, or another single path element.
var revision = regexp.MustCompile(`^[A-Za-z0-9][\w-]{0,127}$`)

// gpt2Owner is who GPT-2's weights belong to on the hub; they are still known by their bare names too.
const gpt2Owner = "openai-community"

// resolveHub finds a model in the Hugging Face cache of this machine. It downloads nothing.
func resolveHub(id string) (string, error) {
	cache, err := hubCache()
	if err != nil {
		return "", fmt.Errorf("model %s: %w", id, err)
	}
	try := fmt.Sprintf("Try: hf download %s %s %s, or --model DIR", canonicalID(id), configFile, weightsFile)
	for _, name := range cachedNames(id) {
		dir, err := snapshot(filepath.Join(cache, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			_, err = Inspect(dir)
		}
		if err != nil {
			return "", fmt.Errorf("model %s in the Hugging Face cache: %w. %s", id, err, try)
		}
		return dir, nil
	}
	return "", fmt.Errorf("model %s isn't in the Hugging Face cache, %s. %s", id, cache, try)
}

// hubCache is the folder that huggingface_hub caches models in, by the same environment variables.
func hubCache() (string, error) {
	for _, name := range []string{"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"} {
		if dir := os.Getenv(name); dir != "" {
			return dir, nil
		}
	}
	if dir := os.Getenv("HF_HOME"); dir != "" {
		return filepath.Join(dir, "hub"), nil
	}
	if dir := os.Getenv("XDG_CACHE_HOME"); dir != "" {
		return filepath.Join(dir, "huggingface", "hub"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(home, ".cache", "huggingface", "hub"), nil
}

// canonicalID adds the owner to GPT-2's bare names.
func canonicalID(id string) string {
	switch id {
	case "gpt2", "gpt2-medium", "gpt2-large", "gpt2-xl":
		return gpt2Owner + "/" + id
	}
	return id
}

// cachedNames lists the folders a model may be cached in.
func cachedNames(id string) []string {
	id = canonicalID(id)
	names := []string{"models--" + strings.ReplaceAll(id, "/", "--")}
	if bare, ok := strings.CutPrefix(id, gpt2Owner+"/"); ok {
		names = append(names, "models--"+bare)
	}
	return names
}

// snapshot returns the directory of a cached model's main revision; fs.ErrNotExist when there is none.
func snapshot(repo string) (string, error) {
	ref, err := readBounded(filepath.Join(repo, "refs", "main"))
	if err != nil {
		return "", err
	}
	commit := strings.TrimSpace(string(ref))
	if !revision.MatchString(commit) {
		return "", fmt.Errorf("%s holds no revision", filepath.Join(repo, "refs", "main"))
	}
	dir := filepath.Join(repo, "snapshots", commit)
	_, err = os.Stat(dir)
	return dir, err
}
