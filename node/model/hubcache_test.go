package model

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sapo-swarm/swarm/configs"
)

func TestResolveHub(t *testing.T) {
	const commit = "607a30d783dfa663caf39e06633721c8d4cfcd7e"
	put := func(t *testing.T, cache, repo string) string {
		t.Helper()
		dir := filepath.Join(cache, repo, "snapshots", commit)
		blobs := filepath.Join(cache, repo, "blobs")
		writeTiny(t, blobs)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		for _, file := range []string{"config.json", "model.safetensors"} { // the cache links to its blobs
			if err := os.Symlink(filepath.Join("..", "..", "blobs", file), filepath.Join(dir, file)); err != nil {
				t.Fatal(err)
			}
		}
		write(t, filepath.Join(cache, repo, "refs", "main"), []byte(commit+"\n"))
		return dir
	}
	for _, test := range []struct{ repo, id string }{
		{"models--openai-community--gpt2", "openai-community/gpt2"},
		{"models--openai-community--gpt2", "gpt2"},
		{"models--gpt2", "gpt2"},
		{"models--gpt2", "openai-community/gpt2"},
		{"models--someone--tiny.1", "someone/tiny.1"},
	} {
		cache := t.TempDir()
		t.Setenv("HF_HUB_CACHE", cache)
		want := put(t, cache, test.repo)
		if got, err := Resolve(configs.Model{Weights: test.id}, ""); err != nil || got != want {
			t.Errorf("%s as %s: %s, %v", test.repo, test.id, got, err)
		}
	}

	home := t.TempDir()
	t.Setenv("HOME", home)
	for name, cache := range map[string]string{
		"HUGGINGFACE_HUB_CACHE": filepath.Join(home, "old"), "HF_HOME": filepath.Join(home, "hf", "hub"),
		"XDG_CACHE_HOME": filepath.Join(home, "xdg", "huggingface", "hub"), "": filepath.Join(home, ".cache", "huggingface", "hub"),
	} {
		for _, unset := range []string{"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME"} {
			t.Setenv(unset, "")
		}
		if name != "" {
			t.Setenv(name, strings.TrimSuffix(strings.TrimSuffix(cache, "/hub"), "/huggingface"))
		}
		want := put(t, cache, "models--gpt2")
		if got, err := Resolve(configs.Model{Weights: "gpt2"}, ""); err != nil || got != want {
			t.Errorf("%s: %s, %v", name, got, err)
		}
	}
}

func TestResolveHubRefuses(t *testing.T) {
	for name, test := range map[string]struct {
		put  func(t *testing.T, repo string)
		want string
	}{
		"no cache": {func(*testing.T, string) {}, "isn't in the Hugging Face cache"},
		"no snapshot": {func(t *testing.T, repo string) {
			write(t, filepath.Join(repo, "refs", "main"), []byte("abc"))
		}, "isn't in the Hugging Face cache"},
		"ref leaves the cache": {func(t *testing.T, repo string) {
			write(t, filepath.Join(repo, "refs", "main"), []byte("../../../x"))
		}, "contains no revision"},
		"configuration alone": {func(t *testing.T, repo string) {
			write(t, filepath.Join(repo, "refs", "main"), []byte("abc"))
			write(t, filepath.Join(repo, "snapshots", "abc", "config.json"), []byte(tinyConfig))
		}, "has no model.safetensors"},
		"no tokenizer": {func(t *testing.T, repo string) {
			write(t, filepath.Join(repo, "refs", "main"), []byte("abc"))
			writeTiny(t, filepath.Join(repo, "snapshots", "abc"))
		}, "has no tokenizer.json"},
	} {
		cache := t.TempDir()
		t.Setenv("HF_HUB_CACHE", cache)
		test.put(t, filepath.Join(cache, "models--openai-community--gpt2"))
		_, err := Resolve(configs.Model{Weights: "gpt2", Tokenizer: "huggingface"}, "")
		const try = "Try: swarm model pull openai-community/gpt2, or --model DIR"
		var missing *MissingError
		if !errors.As(err, &missing) || !strings.Contains(err.Error(), test.want) || !strings.HasSuffix(err.Error(), ". "+try) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
