package tokenizer

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
)

// modelFiles holds chat settings from the files beside a tokenizer.json. Each of these files may be missing.
type modelFiles struct {
	modelType string // from config.json
	eos       []int  // from generation_config.json, else from config.json
	class     string // of transformers, from tokenizer_config.json, else from config.json
	eosText   string // from tokenizer_config.json
	template  string // text of the chat template, from chat_template.jinja, else from tokenizer_config.json
}

func readModelFiles(dir string) (modelFiles, error) {
	var config struct {
		ModelType string   `json:"model_type"`
		Class     string   `json:"tokenizer_class"`
		EOS       tokenIDs `json:"eos_token_id"`
	}
	var generation struct {
		EOS tokenIDs `json:"eos_token_id"`
	}
	var tokenizer struct {
		Class    string       `json:"tokenizer_class"`
		EOS      tokenText    `json:"eos_token"`
		Template chatTemplate `json:"chat_template"`
	}
	for name, into := range map[string]any{
		"config.json": &config, "generation_config.json": &generation, SettingsFile: &tokenizer,
	} {
		data, err := readBounded(filepath.Join(dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = json.Unmarshal(data, into)
		}
		if err != nil {
			return modelFiles{}, fmt.Errorf("%s: %.200s", name, err)
		}
	}
	about := modelFiles{
		modelType: config.ModelType, class: cmp.Or(tokenizer.Class, config.Class), eos: generation.EOS,
		eosText: string(tokenizer.EOS), template: string(tokenizer.Template),
	}
	if len(about.eos) == 0 {
		about.eos = config.EOS
	}
	text, err := readBounded(filepath.Join(dir, "chat_template.jinja")) // first, as in transformers
	switch {
	case err == nil:
		about.template = string(text)
	case !errors.Is(err, fs.ErrNotExist):
		return modelFiles{}, err
	}
	return about, nil
}

// endTokens returns the ids that end a completion: all end tokens that the model's files name, in their order. They
// must be added tokens, which no text encodes to.
func (f file) endTokens(about modelFiles) ([]int, error) {
	var ends []int
	for _, id := range about.eos {
		if !slices.ContainsFunc(f.AddedTokens, func(token addedToken) bool { return token.ID == id }) {
			return nil, fmt.Errorf("the model's end token, %d, is not among its added tokens", id)
		}
		if !slices.Contains(ends, id) {
			ends = append(ends, id)
		}
	}
	if len(ends) == 0 && about.eosText != "" {
		at := slices.IndexFunc(f.AddedTokens, func(token addedToken) bool { return token.Content == about.eosText })
		if at < 0 {
			return nil, fmt.Errorf("the model's end token, %.40q, is not among its added tokens", about.eosText)
		}
		ends = []int{f.AddedTokens[at].ID}
	}
	if len(ends) == 0 {
		return nil, errors.New("the model's files do not name its end token (eos_token_id)")
	}
	return ends, nil
}

// tokenIDs is a token's id, a list of ids, or null.
type tokenIDs []int

func (t *tokenIDs) UnmarshalJSON(data []byte) error {
	var one *int
	if json.Unmarshal(data, &one) == nil {
		if *t = nil; one != nil {
			*t = tokenIDs{*one}
		}
		return nil
	}
	return json.Unmarshal(data, (*[]int)(t))
}

// tokenText is a token's text, an object with the text as its content, or null.
type tokenText string

func (t *tokenText) UnmarshalJSON(data []byte) error {
	var object struct {
		Content string `json:"content"`
	}
	if json.Unmarshal(data, (*string)(t)) == nil {
		return nil
	}
	err := json.Unmarshal(data, &object)
	*t = tokenText(object.Content)
	return err
}

// chatTemplate is a template's text, a list of named templates, or null. From a list it uses the template named
// default.
type chatTemplate string

func (t *chatTemplate) UnmarshalJSON(data []byte) error {
	if json.Unmarshal(data, (*string)(t)) == nil {
		return nil
	}
	var named []struct{ Name, Template string }
	err := json.Unmarshal(data, &named)
	for _, one := range named {
		if one.Name == "default" {
			*t = chatTemplate(one.Template)
		}
	}
	return err
}
