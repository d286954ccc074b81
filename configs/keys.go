package configs

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// MixtureKey is the one key that isn't a scalar: it can only be given in a YAML file.
const MixtureKey = "tasks.mixture"

// notAKey is the mapstructure tag of what is resolved, and can't be given.
const notAKey = "-"

// Key is one configuration key.
type Key struct {
	Name string       // as in YAML, nested ones with a dot: tasks.set
	Kind reflect.Kind // String, Bool, Int, Int64, Float64, or Slice for MixtureKey
}

// AllKeys lists every key of Config in the order of its fields.
func AllKeys() []Key {
	var keys []Key
	var walk func(t reflect.Type, prefix string)
	walk = func(t reflect.Type, prefix string) {
		for i := range t.NumField() {
			field := t.Field(i)
			name := prefix + field.Tag.Get("mapstructure")
			if name == notAKey {
				continue
			}
			if field.Type.Kind() == reflect.Struct {
				walk(field.Type, name+".")
				continue
			}
			keys = append(keys, Key{Name: name, Kind: field.Type.Kind()})
		}
	}
	walk(reflect.TypeFor[Config](), "")
	return keys
}

// Keys names every key of Config in alphabetical order.
func Keys() []string {
	var names []string
	for _, k := range AllKeys() {
		names = append(names, k.Name)
	}
	slices.Sort(names)
	return names
}

// FindKey is the key of that name; an unknown one is an *Error that proposes the nearest.
func FindKey(name string) (Key, error) {
	for _, k := range AllKeys() {
		if k.Name == name {
			return k, nil
		}
	}
	return Key{}, unknown("key", name, Keys())
}

// Parse turns a value's text into the key's type: string, bool, int, int64 or float64. Text that isn't of the type is an
// *Error; whether the value is in its range is Validate's to say.
func (k Key) Parse(text string) (any, error) {
	var value any
	var err error
	switch k.Kind {
	case reflect.String:
		return text, nil
	case reflect.Bool:
		value, err = strconv.ParseBool(text)
	case reflect.Int:
		value, err = strconv.Atoi(text)
	case reflect.Int64:
		value, err = strconv.ParseInt(text, 10, 64)
	case reflect.Float64:
		value, err = strconv.ParseFloat(text, 64)
	default:
		return nil, &Error{Key: k.Name, Value: text, Allowed: "a list of tasks in a YAML file"}
	}
	if err != nil {
		return nil, &Error{Key: k.Name, Value: text, Allowed: k.allowed()}
	}
	return value, nil
}

// allowed says what the key takes: its check's words, or its type's.
func (k Key) allowed() string {
	for _, c := range checks(Config{}) {
		if c.key == k.Name {
			return c.allowed
		}
	}
	switch k.Kind {
	case reflect.Bool:
		return "true, false"
	case reflect.Int, reflect.Int64:
		return "a whole number"
	case reflect.Float64:
		return "a number"
	default:
		return "text"
	}
}

// Values are a configuration's values by key, MixtureKey left out.
func Values(c Config) map[string]any {
	values := map[string]any{}
	var walk func(v reflect.Value, prefix string)
	walk = func(v reflect.Value, prefix string) {
		for i := range v.NumField() {
			name := prefix + v.Type().Field(i).Tag.Get("mapstructure")
			if name == notAKey {
				continue
			}
			switch field := v.Field(i); field.Kind() {
			case reflect.Struct:
				walk(field, name+".")
			case reflect.Slice:
			default:
				values[name] = field.Interface()
			}
		}
	}
	walk(reflect.ValueOf(c), "")
	return values
}

// PresetValues brings a preset's values (an Experiment's, a Model's Defaults) to the form of Values: nested keys joined by dots, each
// value of its key's type. Keys that Config doesn't have are an *Error.
func PresetValues(preset map[string]any) (map[string]any, error) {
	values := map[string]any{}
	var walk func(m map[string]any, prefix string) error
	walk = func(m map[string]any, prefix string) error {
		for name, value := range m {
			if nested, ok := value.(map[string]any); ok {
				if err := walk(nested, prefix+name+"."); err != nil {
					return err
				}
				continue
			}
			key, err := FindKey(prefix + name)
			if err != nil {
				return err
			}
			if values[key.Name], err = key.Parse(fmt.Sprint(value)); err != nil {
				return err
			}
		}
		return nil
	}
	return values, walk(preset, "")
}

// FlagName is the key as a command-line flag, without the dashes: num-train-samples, tasks-set.
func (k Key) FlagName() string { return strings.NewReplacer("_", "-", ".", "-").Replace(k.Name) }

// EnvironmentName is the key as an environment variable: SWARM_NUM_TRAIN_SAMPLES, SWARM_TASKS_SET.
func (k Key) EnvironmentName() string {
	return "SWARM_" + strings.ToUpper(strings.ReplaceAll(k.Name, ".", "_"))
}

// Usage is one line for a flag's help.
func (k Key) Usage() string { return usages()[k.Name] }

func usages() map[string]string {
	return map[string]string{
		"experiment":                  "experiment's `name` (default: the preset's, the file's, or \"default\")",
		"preset":                      "experiment `preset` to start from: " + strings.Join(Experiments(), ", "),
		"seed":                        "every random draw follows from it",
		"rounds":                      "rounds to train",
		"swarm_size":                  "most nodes the experiment has",
		"num_train_samples":           "I: own questions a node trains on each round",
		"num_transplant_trees":        "J: rollouts a node takes from others each round",
		"num_generations":             "G: completions of a question",
		"model":                       "`model`: " + strings.Join(Models(), ", ") + ", or a folder with config.json and *.safetensors",
		"models":                      "different `models` for the nodes, in turn: nano,micro, or with counts nano=4,micro=4",
		"device":                      "`device`: auto, cpu, cuda, cuda:N",
		"precision":                   "`precision`: auto (tf32 on CUDA, fp16 on Volta and Turing, fp32 on a CPU), fp32, tf32, bf16, fp16",
		"tasks.set":                   "task `set`: " + strings.Join(TaskSets(), ", "),
		"tasks.file":                  "`file` of questions (JSON lines of question, answer, metadata) in place of a task set",
		"tasks.words":                 "`file` of words for the task bf, one a line",
		"tasks.system_prompt":         "system `prompt`: " + strings.Join(systemPrompts(), ", "),
		"tasks.mixture":               "tasks, weights and parameters",
		"temperature":                 "sampling temperature",
		"top_k":                       "sample from the k most probable tokens, 0: all",
		"top_p":                       "sample from the most probable tokens that make up this share",
		"max_prompt_length":           "most tokens of a prompt",
		"max_completion_length":       "most tokens of a completion",
		"learning_rate":               "Adam's learning rate",
		"adam_beta1":                  "Adam's decay of the first moment",
		"adam_beta2":                  "Adam's decay of the second moment",
		"adam_epsilon":                "Adam's epsilon",
		"weight_decay":                "decoupled weight decay",
		"max_grad_norm":               "gradients are clipped to this norm, 0: never",
		"epsilon":                     "the ratio is clipped below 1 - epsilon",
		"epsilon_high":                "the ratio is clipped above 1 + epsilon_high",
		"beta":                        "weight of the KL divergence from the first weights",
		"num_iterations":              "optimizer steps on a round's batch",
		"scale_rewards":               "advantages are divided by the `standard deviation` of: group, or none",
		"loss_type":                   "`normalisation` of the loss: bnpo, grpo, dr_grpo",
		"micro_batch":                 "sequences in a forward pass on a GPU, 0: as many as fit; changes memory, not the update",
		"gradient_checkpointing":      "recompute activations in the backward pass to save memory",
		"gradient_accumulation_steps": "least micro-batches an update is split into",
		"auto_batch_size":             "take fewer than micro_batch sequences where a node's memory budget asks for it",
		"optimizer_offload":           "keep Adam's moments in host memory but for the step",
		"param_offload":               "keep a node's weights in host memory while it has no lease to compute",
		"clear_cache_every_n_rounds":  "give cached device memory back every n rounds, 0: never",
		"cuda_graphs":                 "decode in CUDA graphs (CUDA only)",
		"share":                       "how nodes `share` a GPU: auto, static (a fixed part each), lease (in turns), mps (NVIDIA MPS)",
		"gpus_per_node":               "GPUs of one node, as data-parallel ranks",
		"cpu_fallback":                "a node that no GPU can hold may train on the CPU",
		"sync":                        "how nodes `wait` for each other: barrier, or async (nobody waits)",
		"max_staleness":               "with sync async: a node draws from what arrived in so many of its rounds before this one",
		"max_peers":                   "peers a node takes rollouts from in a round, drawn anew each round; 0: all",
		"external_sampling":           "how a node draws others' `rollouts`: auto (uniform, or fair when async), uniform, fair (over peers), reward (the better the likelier)",
		"zero_advantage_filter":       "drop others' rollouts whose rewards are all equal before the draw",
		"external_advantage":          "which of others' `completions` teach: all, or positive (those better than their group's mean)",
		"external_correction":         "what makes up for others' completions being another policy's: none, or importance (likelihood here over there, clipped)",
		"external_lag":                "at the barrier: rounds that others' rollouts are old when they are drawn, 0: of the same round",
		"split":                       "who decides a round's I and J, of equal sum: fixed, reward-ema (the predecessor's `rule`), bandit",
		"split_alpha":                 "with split reward-ema: what a reward of 1 above its average adds to J",
		"split_ema":                   "with split reward-ema: decay of that average, a round",
		"split_every":                 "with split bandit: rounds a node keeps a split before it is judged",
		"barrier_deadline":            "`seconds` a node waits for its peers' rollouts",
		"barrier_quorum":              "share of nodes that must have shared for a round to count as whole at the deadline",
		"eval_every":                  "rounds between held-out evaluations of a node, 0: only at the end",
		"eval_questions":              "held-out questions of an evaluation, 0: no evaluation",
		"eval_generations":            "completions of each held-out question",
		"checkpoint_every":            "rounds between checkpoints",
		"max_restarts":                "restarts of a node before it is given up",
	}
}
