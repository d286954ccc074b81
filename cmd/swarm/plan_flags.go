package main

import (
	"time"

	"github.com/spf13/pflag"

	"github.com/sapo-swarm/swarm/launcher/plan"
)

// addPlanFlags defines the flags of what is planned: an experiment's configuration, how many nodes of it, and which GPUs.
func addPlanFlags(f *pflag.FlagSet, o *plan.Options) {
	o.Config.AddFlags(f)
	addHostFlags(f, o)
}

// addHostFlags defines the flags of what a host decides for itself.
func addHostFlags(f *pflag.FlagSet, o *plan.Options) {
	f.StringVar(&o.Nodes, "nodes", "auto", "`number` of nodes; auto: the guides' count; max: what memory holds")
	f.Var(&o.MinGPUMemory, "min-gpu-memory", "leave out GPUs with less free memory than this `size`, such as 4 or 4GB")
	addWaitFlags(f, &o.Wait)
}

// addWaitFlags defines the flags of how long to wait for a GPU.
func addWaitFlags(f *pflag.FlagSet, w *plan.Wait) {
	f.DurationVar(&w.Limit, "wait-for-gpu", 0, "wait up to this `time`, such as 60m, until GPUs have enough free memory for the nodes")
	f.DurationVar(&w.Interval, "gpu-check-interval", 30*time.Second, "how often to look while waiting for a GPU, a `time` such as 30s")
}

// addTrainerFlags defines the flags of a trainer of one's own.
func addTrainerFlags(f *pflag.FlagSet, t *plan.Trainer) {
	t.Given = func() bool { return f.Changed("node-command") }
	f.StringVar(&t.Command, "node-command", "", "run `COMMAND` as every node, instead of SAPO: a trainer of one's own that reports through swarm_bridge.Node")
	f.Var(&t.Memory, "node-memory", "memory that one node of --node-command takes, a `size` such as 6GB (default: as the experiment's model)")
}
