package swarmtest

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// The tiny model is a GPT-2 with two layers, 32 wide, whose weights are constructed: its first feed-forward layer is
// a table of successors of bytes. It sometimes answers <answer>N</answer>, N one of three digits, so that rewards and
// gradients exist from the first round.
const (
	tinyWidth, tinyInner, tinyContext, tinyVocabulary = 32, 128, 64, 257
	tinyEnd                                           = 256 // the end token
)

// tinyFollows returns each byte's successors.
func tinyFollows() map[int][]int {
	return map[int][]int{
		'<': {'a', '/'}, '/': {'a'}, 'a': {'n'}, 'n': {'s'}, 's': {'w'}, 'w': {'e'}, 'e': {'r'}, 'r': {'>'},
		'>': {'1', '2', '3', tinyEnd}, '1': {'<'}, '2': {'<'}, '3': {'<'}, tinyEnd: {tinyEnd},
	}
}

func writeTinyModel(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	config := fmt.Sprintf(`{"model_type": "gpt2", "n_layer": 2, "n_head": 2, "n_embd": %d, "n_inner": %d, "n_positions": %d,
"vocab_size": %d, "layer_norm_epsilon": 1e-5, "activation_function": "gelu_new", "eos_token_id": %d, "tie_word_embeddings": true}`,
		tinyWidth, tinyInner, tinyContext, tinyVocabulary, tinyEnd)
	if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte(config), 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "model.safetensors"), Pack(tinyWeights()), 0o644)
}

// Matrix is a tensor of weights.
type Matrix struct {
	Shape  []int
	Values []float32
}

// Zeros returns a tensor of zeros.
func Zeros(shape ...int) Matrix {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return Matrix{shape, make([]float32, n)}
}

// Filled returns a tensor of one value.
func Filled(value float32, shape ...int) Matrix {
	m := Zeros(shape...)
	for i := range m.Values {
		m.Values[i] = value
	}
	return m
}

// set puts a value at row, column.
func (m Matrix) set(row, column int, value float32) { m.Values[row*m.Shape[1]+column] = value }

func tinyWeights() map[string]Matrix {
	follows := tinyFollows()
	known := slices.Sorted(maps.Keys(follows)) // token known[i] is the unit vector i
	axis := map[int]int{}
	for i, token := range known {
		axis[token] = i
	}
	weights := map[string]Matrix{
		"wte.weight": Zeros(tinyVocabulary, tinyWidth), "wpe.weight": Zeros(tinyContext, tinyWidth),
		"ln_f.weight": Filled(2, tinyWidth), "ln_f.bias": Zeros(tinyWidth),
	}
	for layer := range 2 {
		for name, m := range map[string]Matrix{
			"ln_1.weight": Filled(1, tinyWidth), "ln_1.bias": Zeros(tinyWidth),
			"attn.c_attn.weight": Zeros(tinyWidth, 3*tinyWidth), "attn.c_attn.bias": Zeros(3 * tinyWidth),
			"attn.c_proj.weight": Zeros(tinyWidth, tinyWidth), "attn.c_proj.bias": Zeros(tinyWidth),
			"ln_2.weight": Filled(1, tinyWidth), "ln_2.bias": Zeros(tinyWidth),
			"mlp.c_fc.weight": Zeros(tinyWidth, tinyInner), "mlp.c_fc.bias": Filled(-2, tinyInner),
			"mlp.c_proj.weight": Zeros(tinyInner, tinyWidth), "mlp.c_proj.bias": Zeros(tinyWidth),
		} {
			weights[fmt.Sprintf("h.%d.%s", layer, name)] = m
		}
	}
	for token := range tinyVocabulary {
		if i, ok := axis[token]; ok {
			weights["wte.weight"].set(token, i, 1)
		} else {
			weights["wte.weight"].set(token, len(known)+token%(tinyWidth-len(known)), 0.1)
		}
	}
	// A normalized unit vector has √32 ≈ 5.6 on its axis and about 0 elsewhere: neuron i fires, with 3.6, only for
	// token known[i].
	const fires, strength = 3.6, 3
	detect, write, always := weights["h.0.mlp.c_fc.weight"], weights["h.0.mlp.c_proj.weight"], weights["h.0.mlp.c_proj.bias"]
	always.Values[axis['<']] = strength // after a byte of the question
	for i, token := range known {
		detect.set(i, i, 1)
		row := make([]float32, tinyWidth)
		row[i] -= 1
		row[axis['<']] -= strength
		for _, next := range follows[token] {
			row[axis[next]] += strength
		}
		for column, v := range row {
			write.set(i, column, v/fires)
		}
	}
	return weights
}

// Pack makes a safetensors file of 32-bit floats.
func Pack(weights map[string]Matrix) []byte {
	type entry struct {
		DType   string `json:"dtype"`
		Shape   []int  `json:"shape"`
		Offsets [2]int `json:"data_offsets"`
	}
	header, data := map[string]entry{}, []byte{}
	for _, name := range slices.Sorted(maps.Keys(weights)) {
		begin := len(data)
		for _, v := range weights[name].Values {
			data = binary.LittleEndian.AppendUint32(data, math.Float32bits(v))
		}
		header[name] = entry{"F32", weights[name].Shape, [2]int{begin, len(data)}}
	}
	text, err := json.Marshal(header)
	if err != nil {
		panic(err) // unreachable: only names and numbers
	}
	file := binary.LittleEndian.AppendUint64(nil, uint64(len(text)))
	return append(append(file, text...), data...)
}

// writeItems writes 200 questions whose answers are 1, 2 or 3.
func writeItems(path string) error {
	var b strings.Builder
	for i := range 200 {
		fmt.Fprintf(&b, `{"question": "%d mod 3, plus 1", "answer": "%d", "metadata": {}}`+"\n", i, i%3+1)
	}
	return os.WriteFile(path, []byte(b.String()), 0o644)
}
