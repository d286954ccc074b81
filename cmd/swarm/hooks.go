package main

import (
	"github.com/sapo-swarm/swarm/launcher/notify"
	"github.com/spf13/pflag"
)

// addHookFlags defines the flags of what happens once all is over.
func addHookFlags(f *pflag.FlagSet, h *notify.Hooks) {
	f.StringVar(&h.Command, "on-complete", "", "`command` for /bin/sh once all is over, such as 'sudo shutdown -h now'; not after a stop by signal")
	f.StringVar(&h.Webhook, "webhook", "", "`URL` that gets the summary as JSON by POST once all is over, also after a stop by signal")
}

// hookProcess is what hooks need of this process.
func (g *globals) hookProcess() notify.Process {
	return notify.Process{Stderr: g.stderr, Logger: g.logger, Logged: g.console != nil, Agent: "swarm/" + version}
}
