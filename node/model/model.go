// Package model resolves a model's name to a directory with its weights on this machine. It owns the embedded
// weights, the checks of a user's directory, and the access to the Hugging Face cache. It takes configs.Model and
// opens no connection. Only hub.Client.Pull does, when a user asks for a download. If a model is missing, the error
// says how to get it. The package reads the headers of weight files, and the engine reads the values.
package model

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/node/model/hub"
)

// Embedded is the value of Weights for a model that is part of the program.
const Embedded = configs.Embedded

// ownTokenizer is the value of Tokenizer for a model that needs its own tokenizerFile.
const (
	ownTokenizer  = "huggingface"
	tokenizerFile = "tokenizer.json"
)

// Resolve returns the absolute path of a directory with the model's config.json and safetensors, checked by
// Inspect. Weights are "embedded" (written below home at first use), a directory, or a Hugging Face id. For an id
// it looks in this machine's cache and never downloads: a missing model is a *MissingError. Errors fit on one line
// and end with what to try.
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

// isDirectory reports whether a name is a directory rather than a Hugging Face id: by its spelling, or because it
// exists.
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
		return "", fmt.Errorf("model: %s has no %s. Try: copy it there from the base model", dir, tokenizerFile)
	}
	return dir, nil
}
