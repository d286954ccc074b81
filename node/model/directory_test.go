package model

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sapo-swarm/swarm/configs"
)

func TestInspect(t *testing.T) {
	want := configs.Shape{Layers: 2, Heads: 2, Width: 4, Context: 8, Vocabulary: 5, Parameters: tinyParameters}
	plain, prefixed, sharded := t.TempDir(), t.TempDir(), t.TempDir()
	writeTiny(t, plain)

	// As transformers writes it: a prefix, masks that are no parameters.
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
		{"config is no JSON", replace("{", "["), "config.json: invalid character"},
		{"architecture", replace("gpt2", "llama"), `model type "llama"; the engine knows gpt2`},
		{"heads", replace(`"n_head":2`, `"n_head":3`), "3 heads don't divide a width of 4"},
		{"layers", replace(`"n_layer":2`, `"n_layer":0`), "n_layer is 0"},
		{"huge", replace(`"n_layer":2`, `"n_layer":99999999`), "n_layer is 99999999"},
		{"inner", replace("null", "-1"), "n_inner is -1"},
		{"more layers than weights", replace(`"n_layer":2`, `"n_layer":3`), "the weights lack h.2.attn.c_attn.bias and 11 more"},
		{"vocabulary", replace(`"vocab_size":5`, `"vocab_size":6`), "wte.weight is [5 4] in the weights and [6 4] by config.json"},
		{"large config", func(t *testing.T, dir string) {
			write(t, filepath.Join(dir, "config.json"), bytes.Repeat([]byte{' '}, maxJSONBytes+1))
		}, "config.json is larger than"},
		{"integers", tensors(func(all map[string]Tensor) {
			tensor := all["wpe.weight"]
			tensor.DType = "I32"
			all["wpe.weight"] = tensor
		}), "wpe.weight is of type I32"},
		{"cut off", func(t *testing.T, dir string) {
			file := pack(t, tinyTensors(t, ""))
			write(t, filepath.Join(dir, "model.safetensors"), file[:len(file)-1])
		}, "model.safetensors: cut off"},
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
