package model

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/sapo-swarm/swarm/configs"
)

// config is what config.json says about a GPT-2.
type config struct {
	ModelType string `json:"model_type"`
	Layers    int    `json:"n_layer"`
	Heads     int    `json:"n_head"`
	Width     int    `json:"n_embd"`
	Inner     *int   `json:"n_inner"` // of the feed-forward layer; null is 4 times the width
	Context   int    `json:"n_positions"`
	Vocab     int    `json:"vocab_size"`
}

// maxDimension bounds every size in config.json, so that their products stay numbers.
const maxDimension = 1 << 20

func readConfig(path string) (config, error) {
	data, err := readBounded(path)
	if err != nil {
		return config{}, err
	}
	var c config
	if err := json.Unmarshal(data, &c); err != nil {
		return config{}, fmt.Errorf("%s: %.200s", path, err)
	}
	if c.ModelType != "gpt2" {
		return config{}, fmt.Errorf("%s: model type %.40q; the engine knows gpt2", path, c.ModelType)
	}
	if c.Inner == nil {
		inner := 4 * c.Width
		c.Inner = &inner
	}
	for name, n := range map[string]int{
		"n_layer": c.Layers, "n_head": c.Heads, "n_embd": c.Width, "n_inner": *c.Inner, "n_positions": c.Context, "vocab_size": c.Vocab,
	} {
		if n < 1 || n > maxDimension {
			return config{}, fmt.Errorf("%s: %s is %d", path, name, n)
		}
	}
	if c.Width%c.Heads != 0 {
		return config{}, fmt.Errorf("%s: %d heads don't divide a width of %d", path, c.Heads, c.Width)
	}
	return c, nil
}

// gpt2Tensors lists the tensors a GPT-2 needs and their shapes; linear layers are stored (in, out), as in OpenAI's code.
func (c config) gpt2Tensors() map[string][]int64 {
	width, inner := int64(c.Width), int64(*c.Inner)
	tensors := map[string][]int64{
		"wte.weight":  {int64(c.Vocab), width},
		"wpe.weight":  {int64(c.Context), width},
		"ln_f.weight": {width},
		"ln_f.bias":   {width},
	}
	for layer := range c.Layers {
		for name, shape := range map[string][]int64{
			"ln_1.weight":        {width},
			"ln_1.bias":          {width},
			"attn.c_attn.weight": {width, 3 * width},
			"attn.c_attn.bias":   {3 * width},
			"attn.c_proj.weight": {width, width},
			"attn.c_proj.bias":   {width},
			"ln_2.weight":        {width},
			"ln_2.bias":          {width},
			"mlp.c_fc.weight":    {width, inner},
			"mlp.c_fc.bias":      {inner},
			"mlp.c_proj.weight":  {inner, width},
			"mlp.c_proj.bias":    {width},
		} {
			tensors[fmt.Sprintf("h.%d.%s", layer, name)] = shape
		}
	}
	return tensors
}

// check holds the tensors of a directory's files against its config.json. Files may prefix their names with
// "transformer.", and may hold more, such as attention masks.
func (c config) check(tensors map[string]Tensor) (configs.Shape, error) {
	shape := configs.Shape{Layers: c.Layers, Heads: c.Heads, Width: c.Width, Context: c.Context, Vocabulary: c.Vocab}
	var missing []string
	for name, want := range c.gpt2Tensors() {
		tensor, ok := tensors[name]
		if !ok {
			tensor, ok = tensors["transformer."+name]
		}
		switch {
		case !ok:
			missing = append(missing, name)
		case !slices.Equal(tensor.Shape, want):
			return configs.Shape{}, fmt.Errorf("%s is %v in the weights and %v by config.json", name, tensor.Shape, want)
		case !strings.Contains("F64 F32 F16 BF16", tensor.DType):
			return configs.Shape{}, fmt.Errorf("%s is of type %s, not a floating-point type of 16 bits or more", name, tensor.DType)
		default:
			shape.Parameters += tensor.Elements()
		}
	}
	if len(missing) > 0 {
		slices.Sort(missing)
		return configs.Shape{}, fmt.Errorf("the weights lack %s and %d more tensors of a gpt2 with %d layers", missing[0], len(missing)-1, c.Layers)
	}
	return shape, nil
}
