package configs

import (
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// MixtureKey is the only key that isn't a scalar. It can be given only in a YAML file.
const MixtureKey = "tasks.mixture"

// notAKey is the mapstructure tag of fields that are resolved and can't be given.
const notAKey = "-"

// Key is one configuration key.
type Key struct {
	Name string       // as in YAML, nested keys with a dot: tasks.set
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

// Keys returns the name of every key of Config in alphabetical order.
func Keys() []string {
	var names []string
	for _, k := range AllKeys() {
		names = append(names, k.Name)
	}
	slices.Sort(names)
	return names
}

// FindKey returns the key with that name. An unknown name is an *Error that proposes the nearest key.
func FindKey(name string) (Key, error) {
	for _, k := range AllKeys() {
		if k.Name == name {
			return k, nil
		}
	}
	return Key{}, unknown("key", name, Keys())
}

// Parse converts a value's text to the key's type: string, bool, int, int64 or float64. Text of another type is an
// *Error. Validate checks the range.
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

// allowed describes the key's values: its check's text, or its type's.
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

// choice matches a value that shell completion can offer.
var choice = regexp.MustCompile(`^[A-Za-z][\w-]*$`)

// Choices returns the values of a key that accepts one of a few words, nil for any other key.
func (k Key) Choices() []string {
	words := strings.Split(k.allowed(), ", ")
	if k.Kind != reflect.String || len(words) < 2 || slices.ContainsFunc(words, func(w string) bool { return !choice.MatchString(w) }) {
		return nil
	}
	return words
}

// Values returns a configuration's values by key, without MixtureKey.
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

// PresetValues converts a preset's values (an Experiment's, a Model's Defaults) to the form of Values: nested keys
// joined by dots, each value of its key's type. Keys that Config doesn't have are an *Error.
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

// FlagName returns the key as a command-line flag, without the dashes: num-train-samples, tasks-set.
func (k Key) FlagName() string { return strings.NewReplacer("_", "-", ".", "-").Replace(k.Name) }

// EnvironmentName returns the key as an environment variable: SWARM_NUM_TRAIN_SAMPLES, SWARM_TASKS_SET.
func (k Key) EnvironmentName() string {
	return "SWARM_" + strings.ToUpper(strings.ReplaceAll(k.Name, ".", "_"))
}

// Usage returns the one-line help of the key's flag.
func (k Key) Usage() string { return usages()[k.Name] }

// DefaultText returns the key's default for a flag's help: the program's value, or "the model's" if a model preset
// sets the key. It is empty for false, for an empty text, and for MixtureKey.
func (k Key) DefaultText() string {
	if slices.Contains(modelKeys(), k.Name) {
		return "the model's"
	}
	switch value := Values(Default())[k.Name].(type) {
	case nil:
		return ""
	case bool:
		return strings.TrimSuffix(strconv.FormatBool(value), "false")
	default:
		return fmt.Sprint(value)
	}
}

// modelKeys returns the keys that a model preset sets.
var modelKeys = sync.OnceValue(func() []string {
	var keys []string
	for _, name := range Models() {
		if m, err := LoadModel(name); err == nil {
			values, _ := PresetValues(m.Defaults)
			keys = slices.AppendSeq(keys, maps.Keys(values))
		}
	}
	return keys
})

// usages are built once because every command with configuration flags looks up each of them.
var usages = sync.OnceValue(func() map[string]string {
	return map[string]string{
		"experiment":                  "`name` of the experiment (default: the preset's, the file's, or \"default\")",
		"preset":                      "experiment `preset` to start from: " + strings.Join(Experiments(), ", "),
		"seed":                        "seed of every random draw",
		"rounds":                      "rounds to train",
		"swarm_size":                  "number of nodes of the experiment",
		"num_train_samples":           "I: own questions of a node each round",
		"num_transplant_trees":        "J: rollouts that a node takes from other nodes each round",
		"num_generations":             "G: completions per question",
		"model":                       "`model`: " + strings.Join(Models(), ", ") + ", or a folder with config.json and *.safetensors",
		"models":                      "different `models` for the nodes, in turn: nano,micro, or with counts nano=4,micro=4",
		"device":                      "`device`: auto, cpu, cuda, cuda:N",
		"precision":                   "`precision`: auto (tf32 on CUDA, fp16 on Volta and Turing, fp32 on a CPU), fp32, tf32, bf16, fp16",
		"tasks.set":                   "task `set`: " + strings.Join(TaskSets(), ", "),
		"tasks.file":                  "`file` of questions (JSON lines of question, answer, metadata) in place of a task set",
		"tasks.words":                 "`file` of words for the task bf, one a line",
		"tasks.system_prompt":         "system `prompt`: " + strings.Join(systemPrompts(), ", "),
		"tasks.examples":              "solved questions of the same task that precede each question, 0-8, with answers in <answer> tags",
		"tasks.mixture":               "tasks, weights and parameters",
		"nodes.generate_only":         "nodes, from node_0 on, that share rollouts and do not train: teachers",
		"nodes.tasks":                 "`tasks` that each node draws, in turn, such as bf+arc_1d,base_conversion (default: all)",
		"temperature":                 "sampling temperature",
		"top_k":                       "sample from the k most probable tokens, 0: all",
		"top_p":                       "sample from the most probable tokens whose probabilities sum to this",
		"max_prompt_length":           "maximum tokens of a prompt",
		"max_completion_length":       "maximum tokens of a completion",
		"learning_rate":               "Adam's learning rate",
		"adam_beta1":                  "Adam's decay of the first moment",
		"adam_beta2":                  "Adam's decay of the second moment",
		"adam_epsilon":                "Adam's epsilon",
		"weight_decay":                "decoupled weight decay",
		"max_grad_norm":               "clip gradients to this norm, 0: off",
		"epsilon":                     "clip the ratio below 1 - epsilon",
		"epsilon_high":                "clip the ratio above 1 + epsilon_high",
		"beta":                        "weight of the KL divergence from the first weights",
		"num_iterations":              "optimizer steps on each round's batch",
		"scale_rewards":               "divide advantages by the `standard deviation` of the group: group, or none",
		"loss_type":                   "`normalization` of the loss: bnpo, grpo, dr_grpo",
		"micro_batch":                 "sequences in a forward pass on a GPU, 0: as many as fit. Changes memory, not the update",
		"gradient_checkpointing":      "recompute activations in the backward pass to save memory",
		"gradient_accumulation_steps": "minimum number of micro-batches of an update",
		"auto_batch_size":             "use fewer sequences than micro_batch if a node's memory budget requires it",
		"optimizer_offload":           "keep Adam's moments in host memory between steps",
		"param_offload":               "keep a node's weights in host memory while it waits for a lease",
		"clear_cache_every_n_rounds":  "free cached device memory every n rounds, 0: never",
		"cuda_graphs":                 "decode in CUDA graphs (CUDA only)",
		"share":                       "how nodes `share` a GPU: auto, static (a fixed part each), lease (in turns), mps (NVIDIA MPS)",
		"gpus_per_node":               "GPUs per node, one data-parallel rank each",
		"cpu_fallback":                "let a node that no GPU can hold train on the CPU",
		"sync":                        "`mode` in which nodes wait for each other: barrier, or async (no waiting)",
		"max_staleness":               "with --sync async: use rollouts that arrived within this many rounds of the node",
		"max_peers":                   "peers that a node takes rollouts from in a round, drawn each round, 0: all",
		"external_sampling":           "how a node draws others' `rollouts`: auto (uniform, or fair when async), uniform, fair (over peers), reward (higher rewards are more likely), top (the best)",
		"zero_advantage_filter":       "before the draw, drop others' rollouts whose rewards are all equal",
		"external_advantage":          "which of others' `completions` to learn from: all, or positive (better than their group's mean)",
		"external_correction":         "`correction` for rollouts sampled by another policy: auto (importance if J > 0), none (paper), importance, tapered, ftis",
		"external_divergence":         "with --external-correction ftis: drop worse completions that differ by more nats per token",
		"external_filter":             "which of others' rollouts to `refuse`: auto (likelihood if other hosts may join), none, likelihood",
		"external_filter_threshold":   "with --external-filter likelihood: refuse rollouts with 4 tokens in a row above this mean surprise, in nats",
		"external_lag":                "with --sync barrier: age in rounds of others' rollouts when drawn",
		"split":                       "`rule` for a round's I and J, with a constant sum: fixed, reward-ema (rl-swarm's rule), bandit",
		"split_alpha":                 "with --split reward-ema: what a reward of 1 above its average adds to J",
		"split_ema":                   "with --split reward-ema: decay of that average per round",
		"split_every":                 "with --split bandit: rounds until a node judges a split",
		"barrier_deadline":            "maximum `seconds` to wait for peers' rollouts",
		"barrier_quorum":              "share of nodes that must have shared for a round to be complete at the deadline",
		"eval_every":                  "rounds between a node's held-out evaluations, 0: only at the end",
		"eval_questions":              "held-out questions per evaluation, 0: no evaluation",
		"eval_generations":            "completions per held-out question",
		"eval_draws":                  "random numbers of evaluations: auto (node for a new run), node (each node has its own), shared (all nodes have the same)",
		"validation_questions":        "other held-out questions, by which each node's best weights are chosen and kept, 0: none are kept",
		"checkpoint_every":            "rounds between checkpoints",
		"max_restarts":                "maximum restarts of a node before the run gives it up",
		"on_alarm":                    "`action` when gradients grow as they do before a collapse: warn, stop (after a checkpoint), lower-rate (divide the learning rate by 3)",
	}
})
