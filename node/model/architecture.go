package model

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/internal/units"
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

// headTensor is the output head of a rotary model. Its name has no prefix.
const headTensor = "lm_head.weight"

// tensorsOf lists the tensors of a model of this shape and their dimensions.
func tensorsOf(s configs.Shape) map[string][]int64 {
	if s.Rotary() {
		return rotaryTensors(s)
	}
	return gpt2Tensors(s)
}

// nameOf returns the name in tensorsOf of a file's tensor, or "" for a tensor that the engine skips: buffers of old
// files, and a head that is the embedding. Files may omit the prefix. It is the engine's name_of
// (node/policy/engine/gpt2.py, llama.py).
func nameOf(s configs.Shape, stored string) string {
	prefix := gpt2Prefix
	switch {
	case s.Tied() && stored == headTensor:
		return ""
	case s.Rotary():
		if prefix = rotaryPrefix; strings.HasSuffix(stored, "rotary_emb.inv_freq") {
			return ""
		}
		if stored == headTensor {
			return stored
		}
	case strings.HasSuffix(stored, ".attn.bias"), strings.HasSuffix(stored, ".attn.masked_bias"):
		return ""
	}
	if strings.HasPrefix(stored, prefix) {
		return stored
	}
	return prefix + stored
}

// Prefixes of the tensors' names.
const (
	gpt2Prefix   = "transformer."
	rotaryPrefix = "model."
)

// gpt2Tensors lists GPT-2's tensors. Linear layers are stored (in, out), as in OpenAI's code.
func gpt2Tensors(s configs.Shape) map[string][]int64 {
	width, inner := int64(s.Width), int64(s.InnerWidth())
	tensors := map[string][]int64{
		gpt2Prefix + "wte.weight":  {int64(s.Vocabulary), width},
		gpt2Prefix + "wpe.weight":  {int64(s.Context), width},
		gpt2Prefix + "ln_f.weight": {width},
		gpt2Prefix + "ln_f.bias":   {width},
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
			tensors[fmt.Sprintf("%sh.%d.%s", gpt2Prefix, layer, name)] = shape
		}
	}
	return tensors
}

// rotaryTensors lists the tensors of Llama, Qwen2 and Qwen3. Linear layers are stored (out, in), as in torch's Linear.
func rotaryTensors(s configs.Shape) map[string][]int64 {
	width, inner := int64(s.Width), int64(s.InnerWidth())
	queries, pairs := int64(s.Heads*s.HeadWidth()), int64(s.KeyValueHeads()*s.HeadWidth())
	tensors := map[string][]int64{
		rotaryPrefix + "embed_tokens.weight": {int64(s.Vocabulary), width},
		rotaryPrefix + "norm.weight":         {width},
	}
	if s.Untied {
		tensors[headTensor] = []int64{int64(s.Vocabulary), width}
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
			tensors[fmt.Sprintf("%slayers.%d.%s", rotaryPrefix, layer, name)] = shape
		}
	}
	return tensors
}

// check compares the headers of a directory's weight files with the shape from its config.json. It refuses what the
// engine refuses when it loads them (node/policy/engine/weights.py): a tensor that is missing, stored twice, of another
// shape, or not of a floating-point type, and a tensor that is not the model's. The tests of both read
// testdata/weights.json.
func check(shape configs.Shape, headers []map[string]Tensor) error {
	wanted := tensorsOf(shape)
	found := make(map[string]bool, len(wanted))
	var unknown string
	var missing []string
	for _, header := range headers {
		for _, stored := range slices.Sorted(maps.Keys(header)) {
			name, tensor := nameOf(shape, stored), header[stored]
			if name == "" {
				continue
			}
			switch want, ok := wanted[name]; {
			case !ok:
				unknown = cmp.Or(unknown, stored)
			case found[name]:
				return fmt.Errorf("the weights have %s twice", name)
			case !slices.Equal(tensor.Shape, want):
				return fmt.Errorf("%s is %v in the weights but %v in config.json", stored, tensor.Shape, want)
			case !slices.Contains(floats, tensor.DType):
				return fmt.Errorf("%s has type %s, not a floating-point type of 16 bits or more", stored, tensor.DType)
			}
			found[name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		if !found[name] {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("the weights lack %s and %d more tensors of a %s with %d layers", missing[0], len(missing)-1, shape.Family(), shape.Layers)
	}
	if unknown != "" {
		return fmt.Errorf("the weights have %.100s, which is not a tensor of a %s with %s", unknown, shape.Family(), units.Plural(shape.Layers, "layer"))
	}
	return nil
}

// floats lists the types of weights.
var floats = []string{"F64", "F32", "F16", "BF16"}
