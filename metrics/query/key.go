package query

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/metrics/store"
	"github.com/sapo-swarm/swarm/metrics/store/neutral"
)

// ConfigKey identifies a run's configuration: everything that affects what its nodes learn and how much. It contains
// the experiment's keys except seed and name, the resolved precision, the nodes and rounds, and the contents of its
// inputs: weights, questions and a --node-command. Runs with equal keys are runs of one configuration.
func ConfigKey(run store.Totals) string {
	var c configs.Config
	// A file's folder has no effect and is unknown for imported runs. Its content is added below.
	if err := json.Unmarshal(neutral.DocumentWithoutFolders(run.Config), &c); err != nil || c.Model == "" {
		// An import, or a run of another trainer: use the run's own row.
		return fmt.Sprintf("%d/%d G %d, %s, %s, %s %s", run.NumTrainSamples, run.NumTransplantTrees, run.NumGenerations,
			units.Plural(run.Nodes, "node"), units.Plural(run.Rounds, "round"), run.Model, run.Preset)
	}
	c.Seed = 0
	var b strings.Builder
	values := configs.Values(c)
	for _, key := range configs.KeysOf(configs.ClassExperiment) {
		if value, scalar := values[key]; scalar {
			fmt.Fprintf(&b, "%s=%#v ", key, value)
		}
	}
	if c.OnAlarm == configs.AlarmLower {
		fmt.Fprintf(&b, "on_alarm=%s ", c.OnAlarm)
	}
	for _, m := range c.Members {
		fmt.Fprintf(&b, "%q=%d at %v ", m.Model, m.Nodes, m.LearningRate)
	}
	mixture, err := json.Marshal(c.Tasks.Mixture)
	if err != nil {
		mixture = []byte(err.Error())
	}
	fmt.Fprintf(&b, "%s %s %s, %s", mixture, c.ResolvedPrecision(strings.HasPrefix(run.Device, "cuda")), units.Plural(run.Nodes, "node"),
		units.Plural(run.Rounds, "round"))
	var made versions
	if err := json.Unmarshal(run.Versions, &made); err == nil {
		for _, name := range slices.Sorted(maps.Keys(made.Inputs)) {
			fmt.Fprintf(&b, ", %s %s", neutral.WithoutFolders(name), made.Inputs[name])
		}
	}
	return b.String()
}

// versions is the part of a run's versions that belongs to its configuration and settings.
type versions struct {
	Swarm  string            `json:"swarm"`
	Torch  string            `json:"torch"`
	Python string            `json:"python"`
	Engine string            `json:"engine"`
	Inputs map[string]string `json:"inputs"` // contents of the files that the run read, by name
}
