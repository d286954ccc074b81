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

// ConfigKey is what of a run decides what its nodes learn and how much there is of it: the experiment's keys but seed
// and name, the precision that it resolved to, its nodes and its rounds, and the contents of what it read beside:
// weights, questions, a --node-command. Runs of equal keys are runs of one configuration.
func ConfigKey(run store.Totals) string {
	var c configs.Config
	// Where a file lies decides nothing, and isn't known of imported runs. What it holds is below.
	if err := json.Unmarshal(neutral.DocumentWithoutFolders(run.Config), &c); err != nil || c.Model == "" {
		// Imported, or of another trainer: what the run's own row says.
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

// versions are what of a run's versions its configuration and its settings tell of.
type versions struct {
	Swarm  string            `json:"swarm"`
	Torch  string            `json:"torch"`
	Python string            `json:"python"`
	Engine string            `json:"engine"`
	Inputs map[string]string `json:"inputs"` // contents of what the run read, by name
}
