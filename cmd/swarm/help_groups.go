package main

import (
	"slices"

	"github.com/spf13/cobra"

	"github.com/sapo-swarm/swarm/internal/usage"
)

// commandGroups are the groups of `swarm --help`, by task.
var commandGroups = []struct {
	id, title string
	commands  []string
}{
	{"train", "Train:", []string{"up", "resume", "sweep", "plan", "profile"}},
	{"watch", "Watch:", []string{"status", "attach", "logs", "gpu", "dashboard"}},
	{"compare", "Compare:", []string{"compare", "curve", "eval", "report", "verify"}},
	{"share", "Train with others:", []string{"join", "workers", "generate"}},
	{"tune", "Run your own training:", []string{"run", "tune", "doctor"}},
	{"manage", "Manage runs, models and data:", []string{"ls", "down", "rm", "prune", "export", "import", "model", "task", "pretrain", "service", "completion", "man"}},
}

// groupCommands assigns each command to its group.
func groupCommands(root *cobra.Command) {
	for _, g := range commandGroups {
		root.AddGroup(&cobra.Group{ID: g.id, Title: g.title})
		for _, c := range root.Commands() {
			if slices.Contains(g.commands, c.Name()) {
				c.GroupID = g.id
			}
		}
	}
	root.SetCompletionCommandGroupID("manage")
	root.SetHelpCommandGroupID("manage")
}

// ownGroups are groups of flags that only one command has. They come first, and all their flags are everyday flags.
var ownGroups = map[string][]usage.Group{
	"sweep": {group("What to compare", "8loc0ext 4loc4ext --seeds 4", "seeds", "grid", "study", "dry-run")},
	"plan": {
		group("What to plan", "--model gpt2 --gpu-memory 40GB", "gpu-memory", "host-memory", "study", "seeds", "difference", "budget"),
	},
	"eval": {group("What to evaluate", "4loc4ext --node node_3 --round 100", "node", "round", "questions", "generations", "k")},
	"profile": {
		group("What to measure", "--model gpt2 --sizes 1,2,4", "sizes"),
	},
	"join": {
		group("Swarm", "--url-file invitation.txt", "url-file", "shared", "experiment", "name", "node-id", "wait", "ca-file", "nats-creds", "compat"),
		group("What to train", "", "model", "nodes", "generate-only", "fresh"),
	},
	"run": {
		group("Batch and memory", "--batch-size 128 -- python train.py batch={batch_size}", "batch-size", "accumulate", "min-batch-size", "max-retries", "gradient-checkpointing", "offload", "set", "env", "forget"),
		group("GPU selection and waiting", "--wait-for-gpu 60m -- python train.py", "gpu", "cpu", "memory", "min-gpu-memory", "wait-for-gpu", "gpu-check-interval"),
		group("The process", "", "name", "detach", "grace", "output"),
	},
	"tune": {
		group("Training and GPU", "--workload naics-embedder --gpu-memory 24", "workload", "list", "dir", "auto", "gpu", "gpu-memory", "devices"),
		group("Values", "--auto --target-effective-batch 256", "target-effective-batch", "safety-margin", "set"),
		group("Measure", "--auto --profile -- python train.py --batch {batch_size}", "profile", "profile-seconds"),
		group("Write", "--auto --dry-run", "apply", "dry-run", "undo", "force", "output"),
		group("Try learning rates", "--workload sapo 4loc4ext --rates 3e-5,1e-4,3e-4", "rates", "rounds", "model", "nodes", "device", "seed", "yes"),
	},
	"compare": {
		group("Runs", "--study paper", "baseline", "study", "model", "by", "pairs", "seeds", "database"),
		group("Measure", "--measure pass --target 0.3", "measure", "per", "at", "target", "window", "despite", "tasks"),
		group("Output", "--columns experiment,runs,verdict --csv -", "columns", "csv", "min", "top", "gate", "output"),
	},
}

// everydayGroups are the flags that most users of training and planning commands need.
var everydayGroups = []usage.Group{
	group("What to train", "4loc4ext --model nano --seed 7", "config", "model", "models", "num-train-samples", "num-transplant-trees", "num-generations", "external-correction", "paper", "learning-rate", "seed", "name", "set"),
	group("Devices", "4loc4ext --nodes 8 --device cuda", "nodes", "device", "precision", "share", "gpu-memory", "wait-for-gpu"),
	group("Length and cost", "4loc4ext --rounds 300 --price 1.29/h --on-complete 'sudo shutdown -h now'", "rounds", "fresh", "price", "on-complete", "webhook", "on-alarm"),
	group("Sharing with others", "4loc4ext --listen :4222", "listen", "shared", "nats", "sync"),
	group("Watching", "4loc4ext --detach --dashboard", "detach", "dashboard", "output", "eval-every", "eval-questions", "yes"),
}

// restGroups are all other flags.
var restGroups = []usage.Group{
	group("Experiment and tasks", "", "preset", "experiment", "swarm-size", "tasks-set", "tasks-file", "tasks-words", "nodes-tasks", "nodes-generate-only", "tasks-system-prompt", "tasks-examples", "ignore-rl-swarm-env", "max-prompt-length", "max-completion-length"),
	group("Sampling", "", "temperature", "top-k", "top-p"),
	group("Loss and optimizer", "", "loss-type", "scale-rewards", "epsilon", "epsilon-high", "beta", "num-iterations", "adam-beta1", "adam-beta2", "adam-epsilon", "weight-decay", "max-grad-norm"),
	group("Others' rollouts", "", "external-sampling", "external-advantage", "external-filter", "external-filter-threshold", "external-divergence", "external-lag", "zero-advantage-filter", "max-peers", "max-staleness", "split", "split-alpha", "split-ema", "split-every"),
	group("Memory", "", "micro-batch", "auto-batch-size", "gradient-accumulation-steps", "gradient-checkpointing", "optimizer-offload", "param-offload", "clear-cache-every-n-rounds", "cuda-graphs", "cpu-fallback"),
	group("GPUs", "", "gpus-per-node", "min-gpu-memory", "gpu-check-interval"),
	group("Evaluation", "", "eval-generations", "eval-draws", "validation-questions"),
	group("Recovery", "", "checkpoint-every", "max-restarts", "barrier-deadline", "barrier-quorum"),
	group("Network and certificates", "", "advertise", "tls-cert", "tls-key", "nats-file", "nats-creds", "compat", "dashboard-token", "no-token", "webhook-file", "on-complete-file"),
	group("Another trainer", "", "node-command", "node-memory"),
}

func group(title, example string, flags ...string) usage.Group {
	return usage.Group{Title: title, Example: example, Flags: flags}
}

// flagGroups returns the groups of a command's flags. The examples of everydayGroups apply to up only.
func flagGroups(cmd *cobra.Command) (everyday, rest []usage.Group) {
	everyday = slices.Clone(everydayGroups)
	if cmd.Name() != "up" {
		for i := range everyday {
			everyday[i].Example = ""
		}
	}
	return slices.Concat(ownGroups[cmd.Name()], everyday), restGroups
}
