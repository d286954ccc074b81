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

// beganVariable passes the user's command (a store.Command as JSON) from a sweep to the run that it starts.
// TakeBegan removes it from the environment.
const beganVariable = "_SWARM_BEGAN_BY"

// otherVariables are the variables that affect a run besides those of the configuration.
var otherVariables = []string{
	resolve.PriceVariable, "SWARM_PYTHON", resolve.InvitationVariable, resolve.DashboardTokenVariable, resolve.FolderVariable, resolve.RoleVariable, "EXPERIMENT_NAME", "NODE_ID",
	"CUDA_VISIBLE_DEVICES",
}

// OnlyRunFlag is the flag with which swarm resume names the run for swarm up to continue.
const OnlyRunFlag = "only-run"

// ServiceFlag is the flag by which swarm up and join know that they are a service.
const ServiceFlag = "service"

// Typed returns the command that started this process without its secrets, and the secrets. args are as typed,
// without the program's name.
func Typed(args []string, grammar Grammar) (store.Command, Secrets) {
	folder, err := os.Getwd()
	if err != nil {
		folder = "" // the folder was removed
	}
	environ := os.Environ()
	words := grammar.words(args)
	c, secrets := store.Command{Folder: folder}, Secrets{Arguments: map[int]string{}, Environment: map[string]string{}}
	for i, w := range withoutFlags(words, OnlyRunFlag, ServiceFlag) {
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

// decisiveVariables returns the names of the variables that may affect a run.
func decisiveVariables(environ []string) []string {
	// together with these, more of rl-swarm's variables count
	names := slices.Concat(otherVariables, resolve.TellingNames)
	names = append(names, resolve.EnvironmentNames(environ)...)
	slices.Sort(names)
	return slices.Compact(names)
}

// TakeBegan returns the command that the user typed if another command of this program started this one, else nil.
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

// Began returns the variable (NAME=VALUE) that passes the user's command to a run.
func Began(c store.Command) (string, error) {
	text, err := json.Marshal(c)
	if err != nil {
		return "", fmt.Errorf("encode the command: %w", err)
	}
	return beganVariable + "=" + string(text), nil
}

// environWith returns an environment in which only the recorded variables, and those set for this call, affect a
// run.
func environWith(environ []string, c store.Command, secrets Secrets) []string {
	// Some names of rl-swarm, such as SEED, count only together with others, which this function may restore.
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

// ofThisHost are variables whose present values take precedence over the recorded ones.
var ofThisHost = []string{resolve.PriceVariable, "SWARM_PYTHON", resolve.InvitationVariable, resolve.DashboardTokenVariable, "CUDA_VISIBLE_DEVICES"}
