package model

import (
	"encoding/binary"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sapo-swarm/swarm/configs"
)

const tinyConfig = `{"model_type":"gpt2","n_layer":2,"n_head":2,"n_embd":4,"n_positions":8,"vocab_size":5,"n_inner":null}`

// tinyParameters is counted by hand: embeddings 5*4 + 8*4, final norm 2*4, and in each of two layers two norms (16),
// attention 4*12+12 + 4*4+4, feed-forward 4*16+16 + 16*4+4.
const tinyParameters = 20 + 32 + 8 + 2*(16+80+148)

// tinyTensors is the header of a GPT-2 for tinyConfig.
func tinyTensors(t testing.TB, prefix string) map[string]Tensor {
	t.Helper()
	return tensorsFor(t, tinyConfig, prefix)
}

// tensorsFor is the header of weights for a config.json, with this prefix in place of the model's.
func tensorsFor(t testing.TB, config, prefix string) map[string]Tensor {
	t.Helper()
	shape, err := configs.ParseShape([]byte(config))
	if err != nil {
		t.Fatal(err)
	}
	tensors := make(map[string]Tensor)
	offset := int64(0)
	shapes := tensorsOf(shape)
	for _, name := range slices.Sorted(maps.Keys(shapes)) {
		tensor := Tensor{DType: "F32", Shape: shapes[name]}
		tensor.DataOffsets = [2]int64{offset, offset + 4*tensor.Elements()}
		offset = tensor.DataOffsets[1]
		if _, bare, ok := strings.Cut(name, "."); ok && name != headTensor {
			name = prefix + bare
		}
		tensors[name] = tensor
	}
	return tensors
}

// pack returns a safetensors file with this header, with zeros as data.
func pack(t testing.TB, tensors map[string]Tensor) []byte {
	t.Helper()
	header, err := json.Marshal(tensors)
	if err != nil {
		t.Fatal(err)
	}
	size := int64(0)
	for _, tensor := range tensors {
		size = max(size, tensor.DataOffsets[1])
	}
	return packed(string(header), int(size))
}

func packed(header string, data int) []byte {
	file := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(file, header...), make([]byte, data)...)
}

func write(t testing.TB, path string, data []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
}

func writeTiny(t testing.TB, dir string) {
	t.Helper()
	write(t, filepath.Join(dir, "config.json"), []byte(tinyConfig))
	write(t, filepath.Join(dir, "model.safetensors"), pack(t, tinyTensors(t, "")))
}
