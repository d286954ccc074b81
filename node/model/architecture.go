package model

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sapo-swarm/swarm/configs"
)

func readShape(path string) (configs.Shape, error) {
	data, err := readBounded(path)
	if err != nil {
		return configs.Shape{}, err
	}
	shape, err := configs.ParseShape(data)
	if err != nil {
		return configs.Shape{}, fmt.Errorf("%s: allowed: %w", path, err)
	}
	return shape, nil
}

// tensorsOf lists the tensors of a model of this shape and their dimensions, and the prefix that files may add to
// their names.
func tensorsOf(s configs.Shape) (tensors map[string][]int64, prefix string) {
	if s.Rotary() {
		return rotaryTensors(s), "model."
	}
	return gpt2Tensors(s), "transformer."
}

// gpt2Tensors lists GPT-2's tensors. Linear layers are stored (in, out), as in OpenAI's code.
func gpt2Tensors(s configs.Shape) map[string][]int64 {
	width, inner := int64(s.Width), int64(s.InnerWidth())
	tensors := map[string][]int64{
		"wte.weight":  {int64(s.Vocabulary), width},
		"wpe.weight":  {int64(s.Context), width},
		"ln_f.weight": {width},
		"ln_f.bias":   {width},
	}
	for layer := range s.Layers {
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

// rotaryTensors lists the tensors of Llama, Qwen2 and Qwen3, without the prefix. Linear layers are stored (out,
// in), as in torch's Linear.
func rotaryTensors(s configs.Shape) map[string][]int64 {
	width, inner := int64(s.Width), int64(s.InnerWidth())
	queries, pairs := int64(s.Heads*s.HeadWidth()), int64(s.KeyValueHeads()*s.HeadWidth())
	tensors := map[string][]int64{
		"embed_tokens.weight": {int64(s.Vocabulary), width},
		"norm.weight":         {width},
	}
	if s.Untied {
		tensors["lm_head.weight"] = []int64{int64(s.Vocabulary), width}
	}
	each := map[string][]int64{
		"input_layernorm.weight":          {width},
		"self_attn.q_proj.weight":         {queries, width},
		"self_attn.k_proj.weight":         {pairs, width},
		"self_attn.v_proj.weight":         {pairs, width},
		"self_attn.o_proj.weight":         {width, queries},
		"post_attention_layernorm.weight": {width},
		"mlp.gate_proj.weight":            {inner, width},
		"mlp.up_proj.weight":              {inner, width},
		"mlp.down_proj.weight":            {width, inner},
	}
	switch s.Family() {
	case configs.Qwen2:
		each["self_attn.q_proj.bias"] = []int64{queries}
		each["self_attn.k_proj.bias"], each["self_attn.v_proj.bias"] = []int64{pairs}, []int64{pairs}
	case configs.Qwen3:
		each["self_attn.q_norm.weight"] = []int64{int64(s.HeadWidth())}
		each["self_attn.k_norm.weight"] = []int64{int64(s.HeadWidth())}
	}
	for layer := range s.Layers {
		for name, shape := range each {
			tensors[fmt.Sprintf("layers.%d.%s", layer, name)] = shape
		}
	}
	return tensors
}

// check compares the tensors of a directory's files with the shape from its config.json. Files may hold more
// tensors, such as attention masks.
func check(shape configs.Shape, tensors map[string]Tensor) error {
	wanted, prefix := tensorsOf(shape)
	var missing []string
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		tensor, ok := tensors[name]
		if !ok {
			tensor, ok = tensors[prefix+name]
		}
		switch want := wanted[name]; {
		case !ok:
			missing = append(missing, name)
		case !slices.Equal(tensor.Shape, want):
			return fmt.Errorf("%s is %v in the weights but %v in config.json", name, tensor.Shape, want)
		case !strings.Contains("F64 F32 F16 BF16", tensor.DType):
			return fmt.Errorf("%s has type %s, not a floating-point type of 16 bits or more", name, tensor.DType)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("the weights lack %s and %d more tensors of a %s with %d layers", missing[0], len(missing)-1, shape.Family(), shape.Layers)
	}
	return nil
}
