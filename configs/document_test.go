package configs

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseDocument(t *testing.T) {
	d, err := ParseDocument("exp.yaml", []byte(`# a comment
rounds: 20
learning_rate: 1e-5
gradient_checkpointing: true
experiment: ""
tasks:
  system_prompt: none
  mixture:
    - name: bf
      params: {words: [abc, Bad], difficulty: 1.0}
    - {name: arc_1d, weight: 0.5}
`))
	require.NoError(t, err)
	require.Equal(t, map[string]any{"rounds": 20, "learning_rate": 1e-5, "gradient_checkpointing": true, "tasks.system_prompt": "none"}, d.Values)
	require.Equal(t, []TaskSpec{
		{Name: "bf", Weight: 1, Params: map[string]any{"words": []any{"abc", "Bad"}, "difficulty": 1}},
		{Name: "arc_1d", Weight: 0.5, Params: map[string]any{}},
	}, d.Mixture)
	require.Equal(t, "exp.yaml:2", d.Sources["rounds"])
	require.NotContains(t, d.Sources, "experiment")

	for _, empty := range []string{"", "\n", "# nothing\n", "---\n"} {
		d, err := ParseDocument("exp.yaml", []byte(empty))
		require.NoError(t, err)
		require.Empty(t, d.Values)
	}
}

func TestParseDocumentRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"rounds: many":                    `bad rounds "many" (exp.yaml:1): allowed: a whole number from 1 to 10000000`,
		"\nrounds: 1.5":                   `bad rounds "1.5" (exp.yaml:2): allowed: a whole number from 1 to 10000000`,
		"rounds: [1]":                     `bad rounds "[…]" (exp.yaml:1): allowed: a whole number from 1 to 10000000`,
		"rounds: {a: 1}":                  `bad rounds "{…}" (exp.yaml:1): allowed: a whole number from 1 to 10000000`,
		"rounds:":                         `bad rounds "" (exp.yaml:1): allowed: a whole number from 1 to 10000000`,
		"gradient_checkpointing: maybe":   `bad gradient_checkpointing "maybe" (exp.yaml:1): allowed: true, false`,
		"seed: &a 1\nrounds: *a":          `bad rounds "*a" (exp.yaml:2): allowed: a whole number from 1 to 10000000`,
		"learning_rat: 1":                 `unknown key "learning_rat" (exp.yaml:1): did you mean "learning_rate"?`,
		"Rounds: 1":                       `unknown key "Rounds" (exp.yaml:1): did you mean "rounds"?`,
		"num-train-samples: 1":            `unknown key "num-train-samples" (exp.yaml:1): did you mean "num_train_samples"?`,
		"wandb_project: x":                `unknown key "wandb_project" (exp.yaml:1): not a key of the configuration`,
		"tasks:\n  sett: nano":            `unknown key "tasks.sett" (exp.yaml:2): did you mean "tasks.set"?`,
		"tasks: nano":                     `bad tasks "nano" (exp.yaml:1): allowed: key: value lines`,
		"rounds: 1\nseed: 2\nrounds: 3":   `key "rounds" is given twice (exp.yaml:3): also in exp.yaml:1`,
		"just words":                      `config file has no keys (exp.yaml:1): write key: value lines`,
		"- 1":                             `config file has no keys (exp.yaml:1): write key: value lines`,
		"a: b: c":                         `config file is not YAML (exp.yaml:1): mapping values are not allowed in this context`,
		"rounds: 1\na: b: c":              `config file is not YAML (exp.yaml:2): mapping values are not allowed in this context`,
		"rounds: \xff":                    `config file is not text (exp.yaml): allowed: UTF-8`,
		"rounds: 1\n---\nrounds: 2":       `config file has more than one YAML document (exp.yaml): keep the first`,
		"tasks: {mixture: nano}":          `bad tasks.mixture "nano" (exp.yaml:1): allowed: a list of 1 to 256 tasks`,
		"tasks:\n mixture:\n - bf":        `bad tasks.mixture[0] "bf" (exp.yaml:3): allowed: a task's name, weight and params`,
		"tasks: {mixture: [{nam: bf}]}":   `unknown key "nam" (exp.yaml:1): did you mean "name"?`,
		"tasks: {mixture: [{weight: x}]}": `bad tasks.mixture[0].weight "x" (exp.yaml:1): allowed: a number above 0`,
		"tasks: {mixture: [{params: x}]}": `bad tasks.mixture[0].params "x" (exp.yaml:1): allowed: a task's parameters by name`,
		"tasks: {mixture: [{params: {year: 2023-01-01}}]}": `bad tasks.mixture[0].params "" (exp.yaml:1): allowed: year must be a number, text, true, false, or a list of them`,
		strings.Repeat("#", MaxDocument+1):                 `config file is too large (exp.yaml): allowed: at most 1048576 bytes`,
	} {
		_, err := ParseDocument("exp.yaml", []byte(text))
		require.EqualError(t, err, want, "%.60s", text)
	}
}

// The parser returns on any file, and an error is one line.
func FuzzParseDocument(f *testing.F) {
	f.Add([]byte("rounds: 20\ntasks:\n  mixture:\n    - name: bf\n      params: {words: [abc]}\n"))
	f.Add([]byte("a: &a [1]\nb: *a\n<<: *a\n"))
	f.Add([]byte("tasks: {mixture: [{params: {a: &a {b: 1}, c: {<<: *a}}}]}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		d, err := ParseDocument("exp.yaml", data)
		if err == nil {
			for key, value := range d.Values {
				known, err := FindKey(key)
				require.NoError(t, err)
				require.IsType(t, Values(Config{})[known.Name], value)
			}
			return
		}
		var e *Error
		require.True(t, errors.As(err, &e), "%T", err)
		require.NotContains(t, err.Error(), "\n")
	})
}
