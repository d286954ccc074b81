package main

import (
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/launcher/notify"
	"github.com/sapo-swarm/swarm/launcher/plan"
	"github.com/sapo-swarm/swarm/launcher/workers"
)

// addPlanFlags defines the flags of a plan: the experiment's configuration, the number of nodes, and the GPUs.
func addPlanFlags(f *pflag.FlagSet, o *plan.Options) {
	o.Config.AddFlags(f)
	addHostFlags(f, o)
}

// addHostFlags defines the flags of a host's own settings.
func addHostFlags(f *pflag.FlagSet, o *plan.Options) {
	f.StringVar(&o.Nodes, "nodes", "auto", "`number` of nodes; auto: the recommended count (docs/GUIDES.md); max: as many as fit in memory")
	f.Var(&o.MinGPUMemory, "min-gpu-memory", "leave out GPUs with less free memory than this `size`, such as 4 or 4GB")
	addWaitFlags(f, &o.Wait)
}

// addWaitFlags defines the flags for waiting for a GPU.
func addWaitFlags(f *pflag.FlagSet, w *plan.Wait) {
	f.DurationVar(&w.Limit, "wait-for-gpu", 0, "wait up to this `time`, such as 60m, until GPUs have enough free memory for the nodes")
	f.DurationVar(&w.Interval, "gpu-check-interval", 30*time.Second, "how often to check while waiting for a GPU, a `time` such as 30s")
}

// addTrainerFlags defines the flags of a user's own trainer.
func addTrainerFlags(f *pflag.FlagSet, t *plan.Trainer) {
	t.Given = func() bool { return f.Changed("node-command") }
	f.StringVar(&t.Command, "node-command", "", "run `COMMAND` as every node instead of SAPO: your own trainer, which reports through swarm_bridge.Node")
	f.Var(&t.Memory, "node-memory", "memory of one --node-command node, a `size` such as 6GB (default: as for the experiment's model)")
}

// addHookFlags defines the flags of actions after the end of a command.
func addHookFlags(f *pflag.FlagSet, h *notify.Hooks) {
	f.StringVar(&h.Command, "on-complete", "", "`command` for /bin/sh to run at the end, such as 'sudo shutdown -h now'; not after a stop by signal")
	f.StringVar(&h.CommandFile, "on-complete-file", "", "`file` of mode 0600 with the value of --on-complete, because other users can read arguments")
	f.StringVar(&h.Webhook, "webhook", "", "`URL` to POST the JSON summary to at the end, also after a stop by signal")
	f.StringVar(&h.WebhookFile, "webhook-file", "", "`file` of mode 0600 with the value of --webhook, because other users can read arguments")
}

// addAdmissionFlags defines up's flags that let other hosts join.
func addAdmissionFlags(fs *pflag.FlagSet, o *workers.Options) {
	fs.StringVar(&o.Listen, "listen", "", "let others join over the network: `address` to listen on with TLS, such as :4222; prints the command for them")
	fs.StringVar(&o.Advertise, "advertise", "", "`host` or host:port, or several with commas, by which others reach this host (default: its addresses)")
	fs.StringVar(&o.Cert, "tls-cert", "", "`file` of your own certificate for --listen (default: a self-signed one, pinned by its fingerprint)")
	fs.StringVar(&o.Key, "tls-key", "", "`file` of its private key")
	fs.StringVar(&o.NATS, "nats", "", "connect the swarm through a NATS cluster instead of the built-in server: `URL`s separated by commas")
	fs.StringVar(&o.NATSFile, "nats-file", "", "`file` of mode 0600 with the value of --nats, for URLs with a password")
	fs.StringVar(&o.Credentials, "nats-creds", "", "credentials `file` for --nats")
	fs.StringVar(&o.Shared, "shared", "", "connect the swarm through a synced `folder` such as a mounted Google Drive (with NODE_ROLE=coordinator: GDRIVE_PATH)")
	fs.BoolVar(&o.Compat, "compat", false, "with --shared: also write the files that rl-swarm's nodes read")
}

// neverEmpty are the flags that refuse an empty value, as an unset shell variable gives. Without the check it would
// silently mean the default. Flags of configuration keys have a list of their own (resolve.Flags.Layer).
var neverEmpty = []string{"home", "python", "config", "study", "price", "seeds", "node", "database", "baseline", "task", "workload", "listen", "nats", "shared"}

// refuseEmpty refuses given flags with an empty value.
func refuseEmpty(f *pflag.FlagSet) (err error) {
	f.Visit(func(flag *pflag.Flag) {
		empty := flag.Value.String() == ""
		if list, ok := flag.Value.(pflag.SliceValue); ok {
			empty = strings.Join(list.GetSlice(), "") == ""
		}
		if empty && slices.Contains(neverEmpty, flag.Name) {
			err = &configs.Error{Key: flag.Name, Allowed: "a value that is not empty", Source: "--" + flag.Name}
		}
	})
	return err
}
