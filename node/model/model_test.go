package model

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/sapo-swarm/swarm/configs"
)

func TestResolveDirectory(t *testing.T) {
	parent := t.TempDir()
	t.Chdir(parent)
	t.Setenv("HF_HUB_CACHE", filepath.Join(parent, "no cache"))
	dir := filepath.Join(parent, "weights")
	writeTiny(t, dir)
	for _, name := range []string{dir, "weights", "./weights", "weights/"} {
		if got, err := Resolve(configs.Model{Weights: name}, ""); err != nil || got != dir {
			t.Errorf("%s: %s, %v", name, got, err)
		}
	}
	for name, want := range map[string]string{
		"":                      "names no weights",
		"./nothing":             "no such file",
		dir + "/config.json":    "is not a directory",
		"not an id":             "neither a directory nor a Hugging Face id",
		"../../../etc/x":        "no such file",
		"a/b/c":                 "neither",
		"openai-community/gpt2": "isn't in the Hugging Face cache",
	} {
		if _, err := Resolve(configs.Model{Weights: name}, ""); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "Try: ") {
			t.Errorf("%q: %v, want %q", name, err, want)
		}
	}
}
