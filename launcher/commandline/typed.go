package commandline

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/sapo-swarm/swarm/configs/resolve"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// beganVariable tells a run that a sweep starts what the user typed: a store.Command as JSON. It is taken out of the
// environment at once.
const beganVariable = "_SWARM_BEGAN_BY"

// otherVariables are the variables, besides the configuration's, that affect a run.
var otherVariables = []string{
	resolve.PriceVariable, "SWARM_PYTHON", resolve.InvitationVariable, resolve.DashboardTokenVariable, resolve.FolderVariable, resolve.RoleVariable, "EXPERIMENT_NAME", "NODE_ID",
	"CUDA_VISIBLE_DEVICES",
}

// OnlyRunFlag is how swarm resume tells swarm up which run to go on with.
const OnlyRunFlag = "only-run"

// Typed is the command that this process was started with, without its secrets, and these. args are as typed, without
// the program.
func Typed(args []string, grammar Grammar) (store.Command, Secrets) {
	folder, err := os.Getwd()
	if err != nil {
		folder = "" // it was removed
	}
	environ := os.Environ()
	words := grammar.words(args)
	c, secrets := store.Command{Folder: folder}, Secrets{Arguments: map[int]string{}, Environment: map[string]string{}}
	for i, w := range withoutFlags(words, OnlyRunFlag) {
		text := maskWord(w)
		c.Arguments = append(c.Arguments, text)
		if text != w.text {
			secrets.Arguments[i] = w.text
		}
	}
	for _, name := range decisiveVariables(environ) {
		value, ok := os.LookupEnv(name)
		if !ok || value == "" {
			continue
		}
		if slices.Contains(secretVariables, name) {
			secrets.Environment[name], value = value, masked
		}
		c.Environment = append(c.Environment, name+"="+value)
	}
	return c, secrets
}

// decisiveVariables names what in an environment decides something about a run.
func decisiveVariables(environ []string) []string {
	names := slices.Concat(otherVariables, resolve.TellingNames) // beside these, more of rl-swarm's count
	names = append(names, resolve.EnvironmentNames(environ)...)
	slices.Sort(names)
	return slices.Compact(names)
}

// TakeBegan returns what the user typed where another command of this program starts this one; nil elsewhere.
func TakeBegan() *store.Command {
	text, ok := os.LookupEnv(beganVariable)
	if !ok {
		return nil
	}
	os.Unsetenv(beganVariable)
	var c store.Command
	if json.Unmarshal([]byte(text), &c) != nil || len(c.Arguments) == 0 {
		return nil
	}
	return &c
}

// Began is the variable, as NAME=VALUE, that tells a run who began it.
func Began(c store.Command) (string, error) {
	text, err := json.Marshal(c)
	if err != nil {
		return "", fmt.Errorf("encode the command: %w", err)
	}
	return beganVariable + "=" + string(text), nil
}

// environWith returns an environment in which only the recorded variables, and those set for this call, affect a run.
func environWith(environ []string, c store.Command, secrets Secrets) []string {
	// SEED and the like count only beside others, which may come back here.
	deciding := slices.AppendSeq(decisiveVariables(environ), maps.Values(resolve.RLSwarmNames))
	out := slices.DeleteFunc(slices.Clone(environ), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return slices.Contains(deciding, name) && !slices.Contains(ofThisHost, name)
	})
	for _, entry := range c.Environment {
		name, value, _ := strings.Cut(entry, "=")
		if slices.Contains(ofThisHost, name) && slices.ContainsFunc(environ, func(e string) bool { return strings.HasPrefix(e, name+"=") }) {
			continue
		}
		if value == masked {
			secret, ok := secrets.Environment[name]
			if !ok {
				continue
			}
			entry = name + "=" + secret
		}
		out = append(out, entry)
	}
	return out
}

// ofThisHost are variables that may be otherwise than they were: the present ones count.
var ofThisHost = []string{resolve.PriceVariable, "SWARM_PYTHON", resolve.InvitationVariable, resolve.DashboardTokenVariable, "CUDA_VISIBLE_DEVICES"}
