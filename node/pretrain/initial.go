package pretrain

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/node/model"
	"github.com/sapo-swarm/swarm/node/sapo"
)

// Scales of the initial weights.
const (
	embeddingStd = 0.05
	positionSize = 0.05 // amplitude of the sines
	matrixGain   = 0.7  // standard deviation of a matrix times the square root of its inputs
)

// writeInitial writes config.json and random float32 weights of a GPT-2 to dir, as a function of shape and seed.
// They differ from GPT-2's initialization in two ways, which suit a narrow model trained for minutes. Matrices
// preserve the scale of their inputs, because GPT-2's 0.02 suits a width of 768 and more. Positions begin as the
// sines of Vaswani et al. (2017, section 3.5), which attention can compare from the first step. On arc_1d alone,
// the mean loss of the first 80 steps of 32 questions was 1.24 nats a token, and 1.51 with GPT-2's initialization.
func writeInitial(dir string, s configs.Shape, eos int, seed int64) error {
	config, err := ConfigJSON(s, eos)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "config.json"), config, 0o644); err != nil {
		return err
	}
	shapes, header := gpt2Shapes(s), map[string]model.Tensor{}
	rng := rand.New(rand.NewPCG(sapo.Seed(seed, "", 0, sapo.PurposePretrain, 0), 2))
	var data []byte
	for _, name := range slices.Sorted(maps.Keys(shapes)) {
		tensor := model.Tensor{DType: "F32", Shape: shapes[name]}
		tensor.DataOffsets[0] = int64(len(data))
		fill := filling(rng, s, name, shapes[name])
		for i := range int(tensor.Elements()) {
			data = binary.LittleEndian.AppendUint32(data, math.Float32bits(float32(fill(i))))
		}
		tensor.DataOffsets[1] = int64(len(data))
		header[name] = tensor
	}
	text, err := json.Marshal(header)
	if err != nil {
		return err
	}
	file := slices.Concat(binary.LittleEndian.AppendUint64(nil, uint64(len(text))), text, data)
	return os.WriteFile(filepath.Join(dir, "model.safetensors"), file, 0o644)
}

// gpt2Shapes lists the tensors of Hugging Face's GPT2Model. Linear layers are stored (in, out).
func gpt2Shapes(s configs.Shape) map[string][]int64 {
	width, inner := int64(s.Width), int64(s.InnerWidth())
	shapes := map[string][]int64{
		"wte.weight": {int64(s.Vocabulary), width}, "wpe.weight": {int64(s.Context), width},
		"ln_f.weight": {width}, "ln_f.bias": {width},
	}
	for layer := range s.Layers {
		for name, shape := range map[string][]int64{
			"ln_1.weight": {width}, "ln_1.bias": {width}, "ln_2.weight": {width}, "ln_2.bias": {width},
			"attn.c_attn.weight": {width, 3 * width}, "attn.c_attn.bias": {3 * width},
			"attn.c_proj.weight": {width, width}, "attn.c_proj.bias": {width},
			"mlp.c_fc.weight": {width, inner}, "mlp.c_fc.bias": {inner},
			"mlp.c_proj.weight": {inner, width}, "mlp.c_proj.bias": {width},
		} {
			shapes[fmt.Sprintf("h.%d.%s", layer, name)] = shape
		}
	}
	return shapes
}

// filling returns a function of a tensor's elements by index. Call it in ascending order.
func filling(rng *rand.Rand, s configs.Shape, name string, shape []int64) func(i int) float64 {
	normal := func(std float64) func(int) float64 { return func(int) float64 { return std * rng.NormFloat64() } }
	constant := func(value float64) func(int) float64 { return func(int) float64 { return value } }
	matrix := matrixGain / math.Sqrt(float64(shape[0]))
	switch {
	case strings.HasSuffix(name, ".bias"):
		return constant(0)
	case strings.Contains(name, "ln_"):
		return constant(1)
	case name == "wte.weight":
		return normal(embeddingStd)
	case name == "wpe.weight":
		return func(i int) float64 { return positionSize * sinusoid(i/s.Width, i%s.Width, s.Width) }
	case strings.Contains(name, "c_proj"): // these add to the residual stream, twice a layer
		return normal(matrix / math.Sqrt(float64(2*s.Layers)))
	}
	return normal(matrix)
}

// sinusoid is one channel of a position's encoding: sine and cosine alternate, with wavelengths from 2π to 10000 ·
// 2π.
func sinusoid(position, channel, width int) float64 {
	angle := float64(position) / math.Pow(10000, float64(channel/2*2)/float64(width))
	if channel%2 == 0 {
		return math.Sin(angle)
	}
	return math.Cos(angle)
}
