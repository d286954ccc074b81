package resolve

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/internal/charset"
)

// IgnoreRLSwarmFlag is the flag that ignores every variable of rl-swarm, the predecessor of this program.
const IgnoreRLSwarmFlag = "ignore-rl-swarm-env"

// RLSwarmNames maps keys of the configuration to rl-swarm's variables.
var RLSwarmNames = map[string]string{
	"experiment":           "EXPERIMENT_NAME",
	"model":                "MODEL_NAME",
	"num_train_samples":    "NUM_TRAIN_SAMPLES",
	"num_transplant_trees": "NUM_TRANSPLANT_TREES",
	"num_generations":      "NUM_GENERATIONS",
	"rounds":               "MAX_ROUNDS",
	"seed":                 "SEED",
}

// commonNames are rl-swarm's variables that many shells export for other programs. They count only if one of
// TellingNames is set.
var commonNames = []string{"SEED", "MODEL_NAME"}

// rl-swarm's variables for a shared folder and for a host's role. GDRIVE_PATH is often set for other reasons. It
// counts only together with the role.
const (
	FolderVariable = "GDRIVE_PATH"
	RoleVariable   = "NODE_ROLE"
)

// TellingNames are variables that only rl-swarm's users set. One of them shows that rl-swarm's variables are meant.
var TellingNames = []string{
	"EXPERIMENT_NAME", "NUM_TRAIN_SAMPLES", "NUM_TRANSPLANT_TREES", "NUM_GENERATIONS", "MAX_ROUNDS", RoleVariable, "NODE_ID", FolderVariable,
}

// variables maps an environment's variables to their values. An empty variable counts as not set.
func variables(environ []string) map[string]string {
	all := map[string]string{}
	for _, entry := range configs.WithoutHook(environ) {
		if name, text, ok := strings.Cut(entry, "="); ok && text != "" {
			all[name] = text
		}
	}
	return all
}

// rlSwarmVariable returns rl-swarm's variable for a key, "" if it doesn't count. set has the variables that are set.
func rlSwarmVariable(key string, set map[string]string) string {
	name := RLSwarmNames[key]
	if slices.Contains(commonNames, name) && !slices.ContainsFunc(TellingNames, func(n string) bool { return set[n] != "" }) {
		return ""
	}
	return name
}

// AddIgnoreRLSwarm defines the flag.
func (f *Flags) AddIgnoreRLSwarm(fs *pflag.FlagSet) {
	fs.BoolVar(&f.IgnoreRLSwarm, IgnoreRLSwarmFlag, false, "ignore rl-swarm's variables (EXPERIMENT_NAME, SEED and so on); SWARM_… variables still count")
}

// EnvironmentNote lists rl-swarm's variables that took effect, and those that are set without effect. It is empty if
// there are none. more are variables that a command reads besides the configuration's.
func (f *Flags) EnvironmentNote(environ []string, more ...string) string {
	if f.IgnoreRLSwarm {
		return ""
	}
	set := variables(environ)
	flags, err := f.Layer()
	if err != nil {
		return "" // the command reports the error itself
	}
	var used, unused, instead []string
	for _, key := range configs.AllKeys() {
		name := RLSwarmNames[key.Name]
		if name == "" || set[name] == "" || flags.Values[key.Name] != nil || set[key.EnvironmentName()] != "" || !f.reads(key.Name) {
			continue
		}
		if rlSwarmVariable(key.Name, set) != "" {
			used = append(used, shortVariable(name, set[name]))
			continue
		}
		unused = append(unused, shortVariable(name, set[name]))
		instead = append(instead, "--"+key.FlagName())
	}
	for _, name := range more {
		used = append(used, shortVariable(name, set[name]))
	}
	var parts []string
	if len(used) > 0 {
		parts = append(parts, fmt.Sprintf("Used from the environment: %s (rl-swarm's names; --%s ignores them)", strings.Join(used, ", "), IgnoreRLSwarmFlag))
	}
	if len(unused) > 0 {
		why := "many shells export it; %s sets it"
		if len(unused) > 1 {
			why = "many shells export them; %s set them"
		}
		parts = append(parts, fmt.Sprintf("Not used from the environment: %s ("+why+")", strings.Join(unused, ", "), strings.Join(instead, " and ")))
	}
	return strings.Join(parts, ". ")
}

// reads tells whether a command reads a key from the environment. join leaves all keys to the coordinator.
func (f *Flags) reads(key string) bool {
	return f.Keys == nil || slices.ContainsFunc(f.Keys, func(k *KeyFlag) bool { return k.Key.Name == key })
}

// shortVariable formats NAME=VALUE on one line of bounded length.
func shortVariable(name, value string) string {
	value = charset.Line(value)
	if r := []rune(value); len(r) > 60 {
		value = string(r[:60]) + "…"
	}
	return name + "=" + value
}
