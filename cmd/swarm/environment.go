package main

import (
	"io"
	"os"

	"github.com/sapo-swarm/swarm/configs/resolve"
	"github.com/sapo-swarm/swarm/launcher/gpu"
	"github.com/sapo-swarm/swarm/launcher/plan"
	"github.com/sapo-swarm/swarm/node/model"
	"github.com/sapo-swarm/swarm/node/policy"
)

// tellEnvironment says once which of rl-swarm's variables took effect.
func (g *globals) tellEnvironment(f *resolve.Flags, more ...string) {
	if g.environmentTold {
		return
	}
	g.environmentTold = true
	if note := f.EnvironmentNote(os.Environ(), more...); note != "" {
		io.WriteString(g.stderr, note+"\n")
	}
}

// configSources are what a configuration is made of beside its flags.
func configSources(environ []string, hasCUDA bool) resolve.Sources {
	return resolve.Sources{
		Environ: environ, HasCUDA: hasCUDA, FindModel: model.Find,
		Known: []string{"SWARM_HOME", "SWARM_PYTHON", resolve.PriceVariable, resolve.InvitationVariable, gpu.LibraryVariable, policy.HostVariable},
	}
}

// planHost is what planning needs of this process.
func (g *globals) planHost() plan.Host {
	return plan.Host{
		Home: g.home, Logger: g.logger, Stderr: g.stderr, Python: &g.python, Sources: configSources,
		Note: func(f *resolve.Flags) { g.tellEnvironment(f) },
	}
}
