// Package hub downloads models from the Hugging Face hub into this machine's Hugging Face cache. The layout is that
// of huggingface_hub and transformers (https://huggingface.co/docs/hub/local-cache), so that both find each other's
// files. The package owns the cache's layout, the hub's endpoints and the checks of downloads. Only Client.Pull
// opens connections, after a user asked for a download. It imports only leaves of this module.
package hub

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// Main is the default revision.
const Main = "main"

var (
	// idPattern matches the model names that the hub allows, with or without owner.
	idPattern = regexp.MustCompile(`^[A-Za-z0-9][\w.-]{0,95}(/[A-Za-z0-9][\w.-]{0,95})?$`)
	// revisionPattern matches a commit's hash, or a branch or tag that is a single path element.
	revisionPattern = regexp.MustCompile(`^[A-Za-z0-9][\w.-]{0,127}$`)
)

// gpt2Owner is the owner of GPT-2's weights on the hub. Their names without an owner are still valid.
const gpt2Owner = "openai-community"

// IsID reports whether a name is a valid model name of the hub.
func IsID(name string) bool { return idPattern.MatchString(name) && !strings.Contains(name, "--") }

// CanonicalID adds the owner to GPT-2's bare names.
func CanonicalID(id string) string {
	switch id {
	case "gpt2", "gpt2-medium", "gpt2-large", "gpt2-xl":
		return gpt2Owner + "/" + id
	}
	return id
}

// ParseName parses NAME[@revision].
func ParseName(text string) (id, revision string, err error) {
	id, revision, given := strings.Cut(text, "@")
	if !given {
		revision = Main
	}
	if !IsID(id) {
		return "", "", fmt.Errorf("%q is not a model name of the Hugging Face hub, such as gpt2 or Qwen/Qwen2.5-0.5B-Instruct", id)
	}
	if !revisionPattern.MatchString(revision) {
		return "", "", fmt.Errorf("%q is not a revision: allowed: a branch, a tag or a commit", revision)
	}
	return CanonicalID(id), revision, nil
}

// home is Hugging Face's folder, by the environment variables of huggingface_hub.
func home(getenv func(string) string) (string, error) {
	if dir := getenv("HF_HOME"); dir != "" {
		return expand(dir, getenv), nil
	}
	if dir := getenv("XDG_CACHE_HOME"); dir != "" {
		return filepath.Join(expand(dir, getenv), "huggingface"), nil
	}
	if user := getenv("HOME"); user != "" {
		return filepath.Join(user, ".cache", "huggingface"), nil
	}
	return "", errors.New("neither HF_HOME nor HOME is set")
}

// Cache is the folder of cached models, by the environment variables of huggingface_hub.
func Cache(getenv func(string) string) (string, error) {
	for _, name := range []string{"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"} {
		if dir := getenv(name); dir != "" {
			return expand(dir, getenv), nil
		}
	}
	dir, err := home(getenv)
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, "hub"), nil
}

// expand replaces a leading ~, because no shell expands it in a variable's value.
func expand(dir string, getenv func(string) string) string {
	if rest, ok := strings.CutPrefix(dir, "~/"); ok {
		return filepath.Join(getenv("HOME"), rest)
	}
	return dir
}

func folder(id string) string { return "models--" + strings.ReplaceAll(id, "/", "--") }

// Snapshot returns the cache directory of a model's revision, or fs.ErrNotExist. The directory may lack files.
func Snapshot(cache, id, revision string) (string, error) {
	id = CanonicalID(id)
	names := []string{folder(id)}
	if bare, ok := strings.CutPrefix(id, gpt2Owner+"/"); ok {
		names = append(names, folder(bare))
	}
	err := fs.ErrNotExist
	for _, name := range names {
		var dir string
		if dir, err = snapshot(filepath.Join(cache, name), revision); !errors.Is(err, fs.ErrNotExist) {
			return dir, err
		}
	}
	return "", err
}

func snapshot(repo, revision string) (string, error) {
	commit := revision
	ref := filepath.Join(repo, "refs", revision)
	switch text, err := readRef(ref); {
	case err == nil:
		if commit = strings.TrimSpace(text); !revisionPattern.MatchString(commit) {
			return "", fmt.Errorf("%s contains no revision", ref)
		}
	case !errors.Is(err, fs.ErrNotExist):
		return "", err
	}
	dir := filepath.Join(repo, "snapshots", commit)
	_, err := os.Stat(dir)
	return dir, err
}

func readRef(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = file.Close() }() // read-only
	text, err := io.ReadAll(io.LimitReader(file, 1024))
	return string(text), err
}

// Cached lists the ids of the models with a main revision in the cache.
func Cached(cache string) ([]string, error) {
	entries, err := os.ReadDir(cache)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, entry := range entries {
		name, ok := strings.CutPrefix(entry.Name(), "models--")
		id := strings.Replace(name, "--", "/", 1)
		if !ok || !IsID(id) {
			continue
		}
		if _, err := snapshot(filepath.Join(cache, entry.Name()), Main); err == nil {
			ids = append(ids, id)
		}
	}
	return ids, nil
}
