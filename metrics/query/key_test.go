package query_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/metrics/query"
	"github.com/sapo-swarm/swarm/metrics/store"
)

func TestConfigKey(t *testing.T) {
	t.Parallel()
	key := func(change func(*configs.Config, *store.Totals)) string {
		c := configs.Default()
		c.Model, c.Experiment = "nano", "x"
		c.Tasks.Mixture = []configs.TaskSpec{{Name: "bf", Weight: 1, Params: map[string]any{"difficulty": 1}}}
		c.Members = []configs.Member{{Model: "nano", Nodes: 1, LearningRate: 1e-3}, {Model: "gpt2", Nodes: 1, LearningRate: 1e-5}}
		run := store.Totals{Run: store.Run{Device: "cpu", Nodes: 8, Rounds: 20}}
		change(&c, &run)
		config, err := json.Marshal(c)
		require.NoError(t, err)
		run.Config = config
		return query.ConfigKey(run)
	}
	same := key(func(*configs.Config, *store.Totals) {})
	for name, change := range map[string]func(*configs.Config, *store.Totals){
		"seed": func(c *configs.Config, _ *store.Totals) { c.Seed++ },
		"name": func(c *configs.Config, _ *store.Totals) { c.Experiment = "y" },
		"memory": func(c *configs.Config, _ *store.Totals) {
			c.MicroBatch, c.Share, c.CheckpointEvery, c.EvalEvery = 4, "lease", 7, 9
		},
	} {
		require.Equal(t, same, key(change), name)
	}
	for name, change := range map[string]func(*configs.Config, *store.Totals){
		"generations": func(c *configs.Config, _ *store.Totals) { c.NumGenerations = 4 },
		"mixture":     func(c *configs.Config, _ *store.Totals) { c.Tasks.Mixture[0].Params["difficulty"] = 2 },
		"rate":        func(c *configs.Config, _ *store.Totals) { c.Members[1].LearningRate *= 2 },
		"precision":   func(_ *configs.Config, r *store.Totals) { r.Device = "cuda:0" },
		"nodes":       func(_ *configs.Config, r *store.Totals) { r.Nodes = 4 },
		"rounds":      func(_ *configs.Config, r *store.Totals) { r.Rounds = 2000 },
		"trainer": func(_ *configs.Config, r *store.Totals) {
			r.Versions = json.RawMessage(`{"inputs": {"--node-command": "12ab"}}`)
		},
	} {
		require.NotEqual(t, same, key(change), name)
	}
	require.Equal(t, "0/0 G 0, 0 nodes, 0 rounds, gpt2 ", query.ConfigKey(store.Totals{Run: store.Run{Config: json.RawMessage("{}"), Model: "gpt2"}}))
}
