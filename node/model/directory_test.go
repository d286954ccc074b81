package model

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/configs"
)

func TestInspect(t *testing.T) {
	want := configs.Shape{Layers: 2, Heads: 2, Width: 4, Context: 8, Vocabulary: 5, Parameters: tinyParameters}
	plain, prefixed, sharded := t.TempDir(), t.TempDir(), t.TempDir()
	writeTiny(t, plain)

	// As transformers writes it: with a prefix, and with masks that are not parameters.
	write(t, filepath.Join(prefixed, "config.json"), []byte(tinyConfig))
	tensors := tinyTensors(t, "transformer.")
	end := int64(0)
	for _, tensor := range tensors {
		end = max(end, tensor.DataOffsets[1])
	}
	tensors["transformer.h.0.attn.bias"] = Tensor{DType: "BOOL", Shape: []int64{1, 1, 8, 8}, DataOffsets: [2]int64{end, end + 64}}
	write(t, filepath.Join(prefixed, "model.safetensors"), pack(t, tensors))

	write(t, filepath.Join(sharded, "config.json"), []byte(tinyConfig))
	half := map[string]Tensor{}
	rest := tinyTensors(t, "")
	for name, tensor := range rest {
		if strings.HasPrefix(name, "h.0.") { // first in the file's order
			half[name] = tensor
		}
	}
	start := int64(1 << 62)
	for name := range half {
		delete(rest, name)
	}
	for _, tensor := range rest {
		start = min(start, tensor.DataOffsets[0])
	}
	for name, tensor := range rest {
		tensor.DataOffsets[0] -= start
		tensor.DataOffsets[1] -= start
		rest[name] = tensor
	}
	write(t, filepath.Join(sharded, "model-00001-of-00002.safetensors"), pack(t, half))
	write(t, filepath.Join(sharded, "model-00002-of-00002.safetensors"), pack(t, rest))
	write(t, filepath.Join(sharded, "model.safetensors.index.json"),
		[]byte(`{"weight_map":{"h.0.ln_1.weight":"model-00001-of-00002.safetensors","wte.weight":"model-00002-of-00002.safetensors"}}`))

	for name, dir := range map[string]string{"plain": plain, "prefixed": prefixed, "sharded": sharded} {
		got, err := Inspect(dir)
		if err != nil || got != want {
			t.Errorf("%s: %+v, %v, want %+v", name, got, err, want)
		}
	}
}

// Inspect accepts exactly the weights that the engine loads: the engine's tests read the same table. So no run ends
// when a node loads its model.
func TestInspectAcceptsWhatTheEngineLoads(t *testing.T) {
	data, err := os.ReadFile("testdata/weights.json")
	require.NoError(t, err)
	var table struct {
		Bases             map[string]json.RawMessage
		Accepted, Refused [][2]json.RawMessage // the name of a base, and tensors to add, to replace, or (null) to remove
	}
	require.NoError(t, json.Unmarshal(data, &table))
	inspect := func(row [2]json.RawMessage) error {
		var base string
		var changes map[string]*[3]json.RawMessage // type, shape, bytes
		require.NoError(t, json.Unmarshal(row[0], &base))
		require.NoError(t, json.Unmarshal(row[1], &changes))
		config := string(table.Bases[base])
		shape, err := configs.ParseShape([]byte(config))
		require.NoError(t, err)
		tensors, sizes := map[string]Tensor{}, map[string]int64{}
		for name, dimensions := range tensorsOf(shape) {
			tensors[name] = Tensor{DType: "F32", Shape: dimensions}
			sizes[name] = 4 * tensors[name].Elements()
		}
		for name, change := range changes {
			delete(tensors, name)
			if change != nil {
				var tensor Tensor
				var size int64
				require.NoError(t, errors.Join(json.Unmarshal(change[0], &tensor.DType), json.Unmarshal(change[1], &tensor.Shape), json.Unmarshal(change[2], &size)))
				tensors[name], sizes[name] = tensor, size
			}
		}
		end := int64(0)
		for _, name := range slices.Sorted(maps.Keys(tensors)) {
			tensor := tensors[name]
			tensor.DataOffsets = [2]int64{end, end + sizes[name]}
			end, tensors[name] = tensor.DataOffsets[1], tensor
		}
		dir := t.TempDir()
		write(t, filepath.Join(dir, "config.json"), []byte(config))
		write(t, filepath.Join(dir, "model.safetensors"), pack(t, tensors))
		_, err = Inspect(dir)
		return err
	}
	for _, row := range table.Accepted {
		require.NoError(t, inspect(row), "%s %s", row[0], row[1])
	}
	for _, row := range table.Refused {
		require.Error(t, inspect(row), "%s %s", row[0], row[1])
	}
}

func TestInspectRefuses(t *testing.T) {
	replace := func(old, new string) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			changed := strings.Replace(tinyConfig, old, new, 1)
			if changed == tinyConfig {
				t.Fatalf("%q isn't in the configuration", old)
			}
			write(t, filepath.Join(dir, "config.json"), []byte(changed))
		}
	}
	tensors := func(change func(map[string]Tensor)) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			all := tinyTensors(t, "")
			change(all)
			write(t, filepath.Join(dir, "model.safetensors"), pack(t, all))
		}
	}
	remove := func(file string) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			if err := os.Remove(filepath.Join(dir, file)); err != nil {
				t.Fatal(err)
			}
		}
	}
	index := func(text string) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			remove("model.safetensors")(t, dir)
			write(t, filepath.Join(dir, "model.safetensors.index.json"), []byte(text))
		}
	}
	for _, test := range []struct {
		name  string
		spoil func(t *testing.T, dir string)
		want  string
	}{
		{"no config", remove("config.json"), "config.json: no such file"},
		{"no weights", remove("model.safetensors"), "has no model.safetensors"},
		{"config is no JSON", replace("{", "["), "the config.json of a Hugging Face model"},
		{"architecture", replace("gpt2", "bert"), `config.json: allowed: model_type gpt2, llama, qwen2 or qwen3 (it is "bert")`},
		{"heads", replace(`"n_head":2`, `"n_head":3`), "n_embd a multiple of n_head"},
		{"layers", replace(`"n_layer":2`, `"n_layer":0`), "n_layer, n_head, n_embd, n_positions and vocab_size from 1 to"},
		{"huge", replace(`"n_layer":2`, `"n_layer":99999999`), "n_layer, n_head, n_embd, n_positions and vocab_size from 1 to"},
		{"inner", replace("null", "-1"), "n_inner from 1"},
		{"more layers than weights", replace(`"n_layer":2`, `"n_layer":3`), "the weights lack transformer.h.2.attn.c_attn.bias and 11 more"},
		{"vocabulary", replace(`"vocab_size":5`, `"vocab_size":6`), "wte.weight is [5 4] in the weights but [6 4] in config.json"},
		{"large config", func(t *testing.T, dir string) {
			write(t, filepath.Join(dir, "config.json"), bytes.Repeat([]byte{' '}, maxJSONBytes+1))
		}, "config.json is larger than"},
		{"another head", tensors(func(all map[string]Tensor) {
			all["score.weight"] = Tensor{DType: "F32", Shape: []int64{0}}
		}), "the weights have score.weight, which is not a tensor of a gpt2 with 2 layers"},
		{"twice", tensors(func(all map[string]Tensor) {
			all["transformer.ln_f.bias"] = Tensor{DType: "F32", Shape: []int64{0}}
		}), "the weights have transformer.ln_f.bias twice"},
		{"integers", tensors(func(all map[string]Tensor) {
			tensor := all["wpe.weight"]
			tensor.DType = "I32"
			all["wpe.weight"] = tensor
		}), "wpe.weight has type I32"},
		{"cut off", func(t *testing.T, dir string) {
			file := pack(t, tinyTensors(t, ""))
			write(t, filepath.Join(dir, "model.safetensors"), file[:len(file)-1])
		}, "model.safetensors: truncated"},
		{"index leaves the directory", index(`{"weight_map":{"a":"../model.safetensors"}}`), "not a safetensors file beside it"},
		{"index names nothing", index(`{}`), "names no file"},
		{"index is no JSON", index(``), "index.json: unexpected end"},
		{"shard is missing", index(`{"weight_map":{"a":"x.safetensors"}}`), "x.safetensors: open"},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			writeTiny(t, dir)
			test.spoil(t, dir)
			_, err := Inspect(dir)
			if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%v, want %q", err, test.want)
			}
			_, err = Resolve(configs.Model{Name: "mine", Weights: dir}, t.TempDir())
			if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), ". Try: ") {
				t.Errorf("Resolve: %v, want %q and what to try", err, test.want)
			}
		})
	}
}

// tinyQwen2Config has 5*4 parameters for the embedding, 4 for the final norm, and in each of two layers 4*4+4,
// twice 2*4+2 and 4*4 for attention, 3*4*6 for the feed-forward layer and 2*4 for norms. An untied head adds 20.
const tinyQwen2Config = `{"model_type":"qwen2","num_hidden_layers":2,"num_attention_heads":2,"num_key_value_heads":1,"hidden_size":4,
"intermediate_size":6,"max_position_embeddings":64,"vocab_size":5,"tie_word_embeddings":true}`

func TestInspectQwen2(t *testing.T) {
	want := configs.Shape{Architecture: "qwen2", Layers: 2, Heads: 2, KVHeads: 1, Width: 4, Inner: 6, HeadSize: 2, Context: 64, Vocabulary: 5, Parameters: 24 + 2*136}
	untied := strings.Replace(tinyQwen2Config, "true", "false", 1)
	wantUntied := want
	wantUntied.Untied, wantUntied.Parameters = true, want.Parameters+20
	for _, test := range []struct {
		config, prefix string
		want           configs.Shape
	}{{tinyQwen2Config, "model.", want}, {tinyQwen2Config, "", want}, {untied, "", wantUntied}} {
		dir := t.TempDir()
		write(t, filepath.Join(dir, "config.json"), []byte(test.config))
		write(t, filepath.Join(dir, "model.safetensors"), pack(t, tensorsFor(t, test.config, test.prefix)))
		if got, err := Inspect(dir); err != nil || got != test.want {
			t.Errorf("%+v, %v, want %+v", got, err, test.want)
		}
	}

	// A GPT-2's weights with a Qwen2's configuration.
	dir := t.TempDir()
	writeTiny(t, dir)
	write(t, filepath.Join(dir, "config.json"), []byte(tinyQwen2Config))
	if _, err := Inspect(dir); err == nil || !strings.Contains(err.Error(), "the weights lack model.embed_tokens.weight and 25 more tensors of a qwen2 with 2 layers") {
		t.Error(err)
	}
}
