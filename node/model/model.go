// Package model turns a model's name into a directory with its weights on this machine. It owns the weights that are
// part of the program, the checks of a directory that a user names, and the way into the Hugging Face cache. It takes
// configs.Model and opens no connection (hub.Client.Pull does, when a user asks for a download): what isn't here is an
// error that says how to get it. It reads headers of weights; their values are the engine's.
package model

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/node/model/hub"
)

// Embedded is the Weights of a model that is part of the program.
const Embedded = configs.Embedded

// ownTokenizer is the Tokenizer of a model that needs its own tokenizerFile.
const (
	ownTokenizer  = "huggingface"
	tokenizerFile = "tokenizer.json"
)

// Resolve returns the absolute path of a directory with the model's config.json and safetensors, checked by Inspect.
// Weights are "embedded" (written below home at first use), a directory, or a Hugging Face id that is looked up in this
// machine's cache and never downloaded (*MissingError when it isn't there). Errors fit on one line and end with what to
// try.
func Resolve(m configs.Model, home string) (string, error) {
	switch {
	case m.Weights == "":
		return "", fmt.Errorf("model %s names no weights. Try: --model DIR", m.Name)
	case m.Weights == Embedded:
		return resolveEmbedded(embeddedModels, m.Name, home)
	case isDirectory(m.Weights):
		return resolveDirectory(m)
	case hub.IsID(m.Weights):
		return resolveHub(m.Weights, m.Tokenizer == ownTokenizer)
	}
	return "", fmt.Errorf("model %q is neither a directory nor a Hugging Face id. Try: --model DIR", m.Weights)
}

// isDirectory tells a directory from a Hugging Face id: by its spelling, or because it is there.
func isDirectory(name string) bool {
	if filepath.IsAbs(name) || strings.HasPrefix(name, ".") || strings.HasSuffix(name, "/") {
		return true
	}
	info, err := os.Stat(name)
	return err == nil && info.IsDir()
}

func resolveDirectory(m configs.Model) (string, error) {
	dir, err := filepath.Abs(m.Weights)
	if err != nil {
		return "", fmt.Errorf("model %s: %w", m.Weights, err)
	}
	if _, err := Inspect(dir); err != nil {
		return "", fmt.Errorf("model: %w. Try: --model DIR with the config.json and model.safetensors of a gpt2, llama, qwen2 or qwen3", err)
	}
	if _, err := os.Stat(filepath.Join(dir, tokenizerFile)); m.Tokenizer == ownTokenizer && err != nil {
		return "", fmt.Errorf("model: %s has no %s. Try: copy it there from the model that this one was made of", dir, tokenizerFile)
	}
	return dir, nil
}
