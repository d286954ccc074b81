package report

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/sapo-swarm/swarm/metrics/store"
)

// Difference is a configuration key whose values differ between experiments.
type Difference struct {
	Key    string
	Values []string // by experiment, in the order of their first runs; " or " separates several values of one experiment's runs
}

// notCompared lists keys that identify a run and do not affect learning.
var notCompared = []string{"experiment", "seed", "preset"}

// differences lists the keys in which experiments differ, by name.
func differences(totals []store.Totals) []Difference {
	experiments := experimentsOf(totals)
	values := map[string][][]string{} // by key and experiment: distinct values
	for _, t := range totals {
		flat := flatten(t.Config)
		at := slices.Index(experiments, t.Experiment)
		for key, value := range flat {
			if values[key] == nil {
				values[key] = make([][]string, len(experiments))
			}
			if !slices.Contains(values[key][at], value) {
				values[key][at] = append(values[key][at], value)
			}
		}
	}
	var out []Difference
	for _, key := range slices.Sorted(maps.Keys(values)) {
		row := make([]string, len(experiments))
		for i, list := range values[key] {
			row[i] = strings.Join(list, " or ")
		}
		if !slices.Contains(notCompared, key) && (len(slices.Compact(slices.Sorted(slices.Values(row)))) > 1 || strings.Contains(row[0], " or ")) {
			out = append(out, Difference{key, row})
		}
	}
	return out
}

func experimentsOf(totals []store.Totals) []string {
	var names []string
	for _, t := range totals {
		if !slices.Contains(names, t.Experiment) {
			names = append(names, t.Experiment)
		}
	}
	return names
}

// flatten converts a configuration to values by key, with dots in nested keys. Items of a list use their names as keys.
// A document that is not an object has no keys.
func flatten(document []byte) map[string]string {
	out := map[string]string{}
	var root map[string]any
	if json.Unmarshal(document, &root) != nil {
		return out
	}
	var walk func(prefix string, v any)
	walk = func(prefix string, v any) {
		switch x := v.(type) {
		case map[string]any:
			for key, value := range x {
				walk(strings.TrimPrefix(prefix+"."+key, "."), value)
			}
		case []any:
			for i, value := range x {
				named, ok := value.(map[string]any)
				name, isText := named["name"].(string)
				if !ok || !isText {
					name = strconv.Itoa(i)
				}
				delete(named, "name")
				walkNamed(out, prefix+"."+name, named, value)
			}
		default:
			out[prefix] = scalar(v)
		}
	}
	walk("", root)
	return out
}

// walkNamed writes one named item of a list on one line.
func walkNamed(out map[string]string, key string, named map[string]any, value any) {
	if named == nil {
		out[key] = scalar(value)
		return
	}
	text, err := json.Marshal(named)
	if err == nil {
		out[key] = string(text)
	}
}

func scalar(v any) string {
	switch x := v.(type) {
	case string:
		return x
	case float64:
		return strconv.FormatFloat(x, 'g', -1, 64)
	}
	text, err := json.Marshal(v)
	if err != nil {
		return ""
	}
	return string(text)
}
