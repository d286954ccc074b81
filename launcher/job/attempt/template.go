package attempt

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/internal/units"
)

// Places in a template. The value of an Optional place may be empty or have several words.
const (
	BatchSize             = "batch_size"
	Accumulate            = "accumulate"
	EffectiveBatch        = "effective_batch"
	GradientCheckpointing = "gradient_checkpointing"
	Offload               = "offload"
	DevicePlace           = "device"
	GPUPlace              = "gpu"
)

var (
	places   = []string{BatchSize, Accumulate, EffectiveBatch, GradientCheckpointing, Offload, DevicePlace, GPUPlace}
	optional = []string{GradientCheckpointing, Offload}
	// meant maps common names to places.
	meant = map[string]string{
		"batch": BatchSize, "bs": BatchSize, "micro_batch_size": BatchSize, "accumulation": Accumulate, "accumulation_steps": Accumulate,
		"gradient_accumulation": Accumulate, "gradient_accumulation_steps": Accumulate, "grad_accum": Accumulate, "grad_accumulation": Accumulate,
		"effective_batch_size": EffectiveBatch, "checkpointing": GradientCheckpointing, "grad_checkpointing": GradientCheckpointing,
		"gpu_id": GPUPlace, "gpu_index": GPUPlace,
	}
)

// braced matches a name in any number of braces, and a preceding dollar sign, which marks it as another program's
// syntax.
var braced = regexp.MustCompile(`(\$?)(\{+)([A-Za-z][A-Za-z0-9_-]{0,63})(\}+)`)

// Template is argv, or other texts, with places for values.
//
// {batch_size} is a place, {{batch_size}} is the text {batch_size}, {{{batch_size}}} is the value in braces, and so
// on. Parse leaves other braces alone, and also ${batch_size}. So JSON, shells, Hydra and format strings need no
// escaping.
type Template struct {
	args []string
	used map[string]bool
}

// Parse finds the places in args. A name that is a likely misspelling of a place is a *configs.Error.
func Parse(args []string) (Template, error) {
	t := Template{args: slices.Clone(args), used: map[string]bool{}}
	for _, arg := range args {
		for _, m := range braced.FindAllStringSubmatch(arg, -1) {
			name, braces := m[3], min(len(m[2]), len(m[4]))
			switch near := nearest(name); {
			case m[1] != "":
			case slices.Contains(places, name):
				t.used[name] = t.used[name] || braces%2 == 1
			case near != "" && braces%2 == 1:
				return Template{}, &configs.Error{
					Key: "template", Value: "{" + name + "}", Problem: fmt.Sprintf("unknown placeholder {%s}", name),
					Allowed: "{" + strings.Join(places, "} {") + "}",
					Remedy:  fmt.Sprintf("did you mean {%s}? For the literal text write {{%s}}, which becomes {%s}", near, name, name),
				}
			}
		}
	}
	return t, nil
}

// Has reports whether the template has a place.
func (t Template) Has(name string) bool { return t.used[name] }

// Expand replaces the places by their values. An argument that is only an optional place becomes one argument per
// word of its value, or none.
func (t Template) Expand(values map[string]string) ([]string, error) {
	for name := range t.used {
		if _, ok := values[name]; t.used[name] && !ok {
			return nil, fmt.Errorf("expand {%s}: it has no value", name)
		}
	}
	args := make([]string, 0, len(t.args))
	for _, arg := range t.args {
		if name := strings.TrimSuffix(strings.TrimPrefix(arg, "{"), "}"); arg == "{"+name+"}" && slices.Contains(optional, name) {
			args = append(args, strings.Fields(values[name])...)
			continue
		}
		args = append(args, braced.ReplaceAllStringFunc(arg, func(text string) string { return expand(text, values) }))
	}
	return args, nil
}

// expand replaces one name in braces. Each pair of brace pairs, counted from the name outwards, becomes one pair.
// Unpaired braces stay.
func expand(text string, values map[string]string) string {
	m := braced.FindStringSubmatch(text)
	open, name, closing := m[2], m[3], m[4]
	if m[1] != "" || !slices.Contains(places, name) && nearest(name) == "" {
		return text
	}
	pairs := min(len(open), len(closing))
	if pairs%2 == 1 {
		name = values[name]
	}
	return open[pairs:] + strings.Repeat("{", pairs/2) + name + strings.Repeat("}", pairs/2) + closing[pairs:]
}

// nearest returns the place that a misspelled name means. It returns "" if the name is a place or is not similar to
// one.
func nearest(name string) string {
	if slices.Contains(places, name) {
		return ""
	}
	plain := strings.ReplaceAll(strings.ToLower(name), "-", "_")
	if place, ok := meant[plain]; ok {
		return place
	}
	plain = strings.ReplaceAll(plain, "_", "")
	var bare []string
	for _, place := range places {
		bare = append(bare, strings.ReplaceAll(place, "_", ""))
	}
	if at := slices.Index(bare, plain); at >= 0 {
		return places[at]
	}
	// Braces around a name mostly belong to other programs, so a short name must match exactly.
	near := units.NearestWithin(plain, bare, func(place string) int { return min(max(len(place)/3-1, 0), 2) })
	if near == "" {
		return ""
	}
	return places[slices.Index(bare, near)]
}
