package model

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/internal/files"
	"github.com/sapo-swarm/swarm/node/model/hub"
	"github.com/sapo-swarm/swarm/node/tokenizer"
)

const generationFile = "generation_config.json"

// SaveTokenizer writes the files beside a saved model's weights that make transformers tokenize as in training. It
// copies the base model's files, with another class of the tokenizer where transformers 5 needs one. If the base has no
// tokenizer, it writes those of the fallback tokenizer used in training, and sets the end token in both configuration
// files.
func SaveTokenizer(base configs.Model, from, to string) error {
	if hasTokenizer(from) {
		settings, err := tokenizer.TransformersSettings(from)
		if err == nil {
			err = copyFiles(from, to, hub.SmallFiles()...)
		}
		if err != nil || settings == nil {
			return err
		}
		return files.Write(filepath.Join(to, tokenizer.SettingsFile), settings)
	}
	contents, err := tokenizer.TransformersFiles(base.Tokenizer, base.Shape.Context)
	if err != nil {
		return fmt.Errorf("tokenizer of model %s: %w", base.Name, err)
	}
	for name, data := range contents {
		if err := files.Write(filepath.Join(to, name), data); err != nil {
			return err
		}
	}
	if err := copyFiles(from, to, generationFile); err != nil {
		return err
	}
	tokens, err := tokenizer.New(base.Tokenizer)
	if err != nil {
		return err
	}
	return errors.Join(nameEnd(filepath.Join(to, "config.json"), tokens.EOS()), nameEnd(filepath.Join(to, generationFile), tokens.EOS()))
}

// hasTokenizer reports whether transformers finds a tokenizer in a folder.
func hasTokenizer(dir string) bool {
	there := func(name string) bool {
		_, err := os.Stat(filepath.Join(dir, name))
		return err == nil
	}
	return there(tokenizer.File) || there("vocab.json") && there("merges.txt")
}

// copyFiles copies the named files that exist.
func copyFiles(from, to string, names ...string) error {
	for _, name := range names {
		data, err := os.ReadFile(filepath.Join(from, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = files.Write(filepath.Join(to, name), data)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// nameEnd sets the end token in a JSON file, which need not exist. It also sets the first and the padding token if
// the file has none.
func nameEnd(path string, id int) error {
	fields := map[string]any{}
	data, err := files.ReadBounded(path, configs.MaxDocument)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err == nil {
		decoder := json.NewDecoder(bytes.NewReader(data))
		decoder.UseNumber() // keeps the spelling of numbers such as 1e-05
		if err := decoder.Decode(&fields); err != nil || fields == nil {
			return fmt.Errorf("%s is not a JSON object", path)
		}
	}
	fields["eos_token_id"] = id
	for _, key := range []string{"bos_token_id", "pad_token_id"} {
		if fields[key] == nil {
			fields[key] = id
		}
	}
	data, err = json.MarshalIndent(fields, "", "  ")
	if err != nil {
		return err
	}
	return files.Write(path, append(data, '\n'))
}
