package configs

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sapo-swarm/swarm/internal/units"
)

// Limits of a user's mixture.
const (
	maxMixture = 256 // tasks
	maxParams  = 64  // parameters per task
	maxDepth   = 4   // nesting of lists
	maxList    = 100_000
)

func validateMixture(t Tasks) error {
	switch {
	case t.File != "" && len(t.Mixture) > 0:
		return &Error{Key: "tasks.file", Value: t.File, Allowed: "either tasks.file or " + MixtureKey}
	case t.File != "":
		return nil
	case len(t.Mixture) == 0 || len(t.Mixture) > maxMixture:
		return &Error{Key: MixtureKey, Value: strconv.Itoa(len(t.Mixture)) + " tasks", Allowed: fmt.Sprintf("1 to %d tasks", maxMixture)}
	}
	known := taskNames()
	for i, spec := range t.Mixture {
		key := fmt.Sprintf("%s[%d]", MixtureKey, i)
		if !slices.Contains(known, spec.Name) {
			return &Error{Key: key + ".name", Value: spec.Name, Allowed: strings.Join(known, ", ")}
		}
		if rule := real(key+".weight", spec.Weight, 0, 1e6, false, true); !rule.ok {
			return &Error{Key: rule.key, Value: rule.value, Allowed: rule.allowed}
		}
		if len(spec.Params) > maxParams {
			return &Error{Key: key + ".params", Value: strconv.Itoa(len(spec.Params)) + " parameters", Allowed: fmt.Sprintf("at most %d", maxParams)}
		}
		for _, name := range slices.Sorted(maps.Keys(spec.Params)) {
			if _, err := plain(spec.Params[name], maxDepth); err != nil {
				return &Error{Key: key + ".params." + name, Value: fmt.Sprint(spec.Params[name]), Allowed: err.Error()}
			}
		}
	}
	return nil
}

// parseMixture reads a YAML list of tasks. The default Weight is 1.
func parseMixture(node *yaml.Node, source func(*yaml.Node) string) ([]TaskSpec, error) {
	wrong := func(n *yaml.Node, key, allowed string) error {
		return &Error{Key: key, Value: n.Value, Allowed: allowed, Source: source(n)}
	}
	if node.Kind != yaml.SequenceNode || len(node.Content) > maxMixture {
		return nil, wrong(node, MixtureKey, fmt.Sprintf("a list of 1 to %d tasks", maxMixture))
	}
	specs := []TaskSpec{}
	for i, item := range node.Content {
		key := fmt.Sprintf("%s[%d]", MixtureKey, i)
		if item.Kind != yaml.MappingNode {
			return nil, wrong(item, key, "a task's name, weight and params")
		}
		spec := TaskSpec{Weight: 1, Params: map[string]any{}}
		seen := map[string]bool{}
		for j := 0; j+1 < len(item.Content); j += 2 {
			field, value := item.Content[j], item.Content[j+1]
			if seen[field.Value] {
				return nil, &Error{Problem: "key " + quote(key+"."+field.Value) + " is given twice", Source: source(field)}
			}
			seen[field.Value] = true
			var err error
			switch field.Value {
			case "name":
				if value.Kind != yaml.ScalarNode {
					return nil, wrong(value, key+".name", strings.Join(taskNames(), ", "))
				}
				spec.Name = value.Value
			case "weight":
				if spec.Weight, err = strconv.ParseFloat(value.Value, 64); err != nil {
					return nil, wrong(value, key+".weight", "a number above 0")
				}
			case "params":
				if spec.Params, err = parseParams(value); err != nil {
					return nil, wrong(value, key+".params", err.Error())
				}
			default:
				e := unknown("key", field.Value, []string{"name", "weight", "params"})
				e.Source = source(field)
				return nil, e
			}
		}
		specs = append(specs, spec)
	}
	return specs, nil
}

func parseParams(node *yaml.Node) (map[string]any, error) {
	var raw any
	if err := node.Decode(&raw); err != nil {
		return nil, fmt.Errorf("a task's parameters by name, each given once")
	}
	params, ok := raw.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("a task's parameters by name")
	}
	for name, value := range params {
		clean, err := plain(value, maxDepth)
		if err != nil {
			return nil, fmt.Errorf("%s must be %w", name, err)
		}
		params[name] = clean
	}
	return params, nil
}

// plain checks that a parameter is a number, text, true or false, or a list of these. It converts whole numbers to
// int, because YAML and JSON write 1.0 as 1, and the type must not change when it is stored.
func plain(value any, depth int) (any, error) {
	switch v := value.(type) {
	case int, string, bool:
		return v, nil
	case float64:
		if !units.Finite(v) {
			return nil, fmt.Errorf("a finite number")
		}
		if v == math.Trunc(v) && math.Abs(v) <= MaxSeed {
			return int(v), nil
		}
		return v, nil
	case []string:
		return v, nil
	case []any:
		if depth == 0 || len(v) > maxList {
			return nil, fmt.Errorf("a shorter list, or one with fewer levels")
		}
		list := make([]any, len(v))
		for i := range v {
			item, err := plain(v[i], depth-1)
			if err != nil {
				return nil, err
			}
			list[i] = item
		}
		return list, nil
	default:
		return nil, fmt.Errorf("a number, text, true, false, or a list of them")
	}
}
