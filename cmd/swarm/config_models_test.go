package main

import (
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/configs/resolve"
	"github.com/sapo-swarm/swarm/launcher/plan"
	"github.com/sapo-swarm/swarm/launcher/workers"
)

// Tasks and lengths come from the first model. Rate and micro-batch are each model's own, unless the user sets them.
// The highest layer that lists models wins.
func TestModelsOfASwarm(t *testing.T) {
	nano, err := configs.LoadModel("nano")
	require.NoError(t, err)
	rate, batch := nano.Defaults["learning_rate"].(float64), nano.Defaults["micro_batch"].(int)
	file := writeFile(t, filepath.Join(t.TempDir(), "mixed.yaml"), "models: nano,gpt2\n")
	both := []configs.Member{{Model: "nano", Nodes: 1, LearningRate: rate, MicroBatch: batch}, {Model: "gpt2", Nodes: 1, LearningRate: 1e-5}}
	counted := []configs.Member{both[0], {Model: "gpt2", Nodes: 3, LearningRate: 1e-5}, both[0]}
	given := []configs.Member{{Model: "nano", Nodes: 1, LearningRate: 0.5, MicroBatch: 2}, {Model: "gpt2", Nodes: 1, LearningRate: 0.5, MicroBatch: 2}}
	for _, test := range []struct {
		name    string
		args    []string
		environ []string
		models  string
		members []configs.Member
		first   string
	}{
		{name: "in turn", args: []string{"--models", "nano,gpt2"}, models: "nano,gpt2", members: both, first: "nano"},
		{name: "other names and counts", args: []string{"--models", "nano=1, openai-community/GPT2=3,nano"}, models: "nano=1,gpt2=3,nano=1", members: counted, first: "nano"},
		{name: "a file's", args: []string{"--config", file}, models: "nano,gpt2", members: both, first: "nano"},
		{name: "a file's under a flag's model", args: []string{"--config", file, "--model", "gpt2"}, first: "gpt2"},
		{name: "a flag's over a variable's model", args: []string{"--models", "nano,gpt2"}, environ: []string{"SWARM_MODEL=gpt2"}, models: "nano,gpt2", members: both, first: "nano"},
		{name: "the first named twice", args: []string{"--models", "nano,gpt2", "--model", "nano"}, models: "nano,gpt2", members: both, first: "nano"},
		{name: "given for all", args: []string{"--config", file, "--micro-batch", "2"}, environ: []string{"SWARM_LEARNING_RATE=0.5"}, models: "nano,gpt2", members: given, first: "nano"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c, m, _, err := resolved(test.args, test.environ, true)
			require.NoError(t, err)
			require.Equal(t, test.first, m.Name)
			require.Equal(t, test.first, c.Model)
			require.Equal(t, test.models, c.Models)
			require.Equal(t, test.members, c.Members)
			if test.models != "" {
				require.Equal(t, "nano", c.Tasks.Set)
				require.Equal(t, nano.Defaults["max_prompt_length"], c.MaxPromptLength)
				require.InDelta(t, test.members[0].LearningRate, c.LearningRate, 0)
			}
		})
	}
}

func TestModelsThatCannotBeOneSwarmAreRefused(t *testing.T) {
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"--models", "nano,nosuch"}, `unknown model "nosuch" (--models): allowed: `},
		{[]string{"--models", "nano=none"}, `bad models "nano=none" (--models): allowed: models in turn`},
		{[]string{"--models", "nano,gpt2", "--model", "gpt2"}, `bad model "gpt2" (--model): allowed: either model or models, or the first of models as model, nano`},
		{[]string{"--models", "gpt2,nano"}, `bad max_prompt_length "768" (model gpt2): allowed: together with max_completion_length (256) at most the context of nano, 256 tokens`},
	} {
		_, _, _, err := resolved(test.args, nil, false)
		var mistake *configs.Error
		require.ErrorAs(t, err, &mistake, test.args)
		require.ErrorContains(t, err, test.want)
	}
	err := configs.Config{Models: "nano=4,gpt2=2", Members: []configs.Member{{Model: "nano", Nodes: 4}, {Model: "gpt2", Nodes: 2}}}.CheckNodes(8)
	require.EqualError(t, err, `bad models "nano=4,gpt2=2": its counts sum to 6, but the swarm has 8 nodes. Try: --nodes 6, or other counts`)
}

// A worker has one model, however many the coordinator's nodes have: the first of theirs, or its own.
func TestAWorkerHasOneModel(t *testing.T) {
	theirs, _, _, err := resolved([]string{"--models", "nano,gpt2"}, nil, false)
	require.NoError(t, err)
	text, err := json.Marshal(theirs)
	require.NoError(t, err)
	coordinators := configs.Default()
	require.NoError(t, json.Unmarshal(text, &coordinators))
	for flag, want := range map[string]string{"": "nano", "gpt2": "gpt2"} {
		var flags plan.Options
		fs := pflag.NewFlagSet("join", pflag.ContinueOnError)
		addJoinFlags(fs, &flags)
		if flag != "" {
			require.NoError(t, fs.Parse([]string{"--model", flag}))
		}
		c, m, err := configSources(nil, false).Joined(&flags.Config, func() (resolve.Layer, error) { return workers.JoinedBase(coordinators, "e-1.anna"), nil })
		require.NoError(t, err)
		require.Equal(t, want, m.Name)
		require.Equal(t, want, c.ModelOf(1))
		require.Empty(t, c.Models)
		require.Empty(t, c.Members)
	}
}

func TestANodesIndexIsInItsName(t *testing.T) {
	for name, want := range map[string]int{"node_0": 0, "node_17": 17, "anna_3": 0, "node_x": 0, "node_-1": 0, "node_007": 0, "7": 0} {
		require.Equal(t, want, configs.NodeIndex(name), name)
	}
}
