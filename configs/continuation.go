package configs

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// operational are the keys that may change between two attempts at one run: they decide what it takes and how long it lasts, not what is
// learnt. Every other key is the experiment's.
var operational = map[string]bool{
	"preset": true, // where the values came from
	"rounds": true, "swarm_size": true,
	"device": true, "precision": true, // what they resolve to is compared by whoever knows the device

	"micro_batch": true, "gradient_checkpointing": true, "gradient_accumulation_steps": true, "auto_batch_size": true,
	"optimizer_offload": true, "param_offload": true, "clear_cache_every_n_rounds": true, "cuda_graphs": true,

	"barrier_deadline": true, "barrier_quorum": true, "checkpoint_every": true,
	"eval_every": true, "eval_questions": true, "eval_generations": true, // an evaluation draws nothing of training's
	"share": true, "gpus_per_node": true, "cpu_fallback": true, "max_restarts": true,

	"tasks.set": true, // the mixture that it stands for is compared
}

// Change is a key whose value another attempt at a run would have to change.
type Change struct {
	Key           string
	Before, After string
}

func (c Change) String() string { return fmt.Sprintf("%s %s → %s", c.Key, c.Before, c.After) }

// Changes lists, by name, the keys that make after another experiment than before: a run can't go on under it.
func Changes(before, after Config) []Change {
	var list []Change
	old, now := Values(before), Values(after)
	for _, key := range slices.Sorted(maps.Keys(now)) {
		if !operational[key] && old[key] != now[key] {
			list = append(list, Change{key, show(old[key]), show(now[key])})
		}
	}
	list = append(list, memberChanges(before.Members, after.Members)...)
	if !sameMixture(before.Tasks.Mixture, after.Tasks.Mixture) {
		list = append(list, Change{MixtureKey, mixtureNames(before.Tasks), mixtureNames(after.Tasks)})
	}
	return list
}

func show(v any) string {
	if text, ok := v.(string); ok {
		return quote(text)
	}
	return fmt.Sprint(v)
}

// sameMixture compares by JSON, since parameters that were stored have lost their types.
func sameMixture(a, b []TaskSpec) bool {
	normal := func(list []TaskSpec) any {
		data, err := json.Marshal(list)
		if err != nil {
			return err
		}
		var v any
		if err := json.Unmarshal(data, &v); err != nil {
			return err
		}
		return v
	}
	return len(a) == len(b) && reflect.DeepEqual(normal(a), normal(b))
}

func mixtureNames(t Tasks) string {
	if len(t.Mixture) == 0 {
		return "none"
	}
	var names []string
	for _, spec := range t.Mixture {
		names = append(names, fmt.Sprintf("%s %v", spec.Name, spec.Weight))
	}
	return "(" + strings.Join(names, ", ") + ")"
}
