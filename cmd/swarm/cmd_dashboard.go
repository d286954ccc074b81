package main

import (
	"cmp"
	"context"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/configs/resolve"
	"github.com/sapo-swarm/swarm/internal/interrupt"
	"github.com/sapo-swarm/swarm/internal/usage"
	"github.com/sapo-swarm/swarm/launcher/study"
	"github.com/sapo-swarm/swarm/launcher/web"
	"github.com/sapo-swarm/swarm/metrics/stats"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// pageFlag is the flag --dashboard of up: a page about all runs of the home, served until the run ends.
type pageFlag struct {
	address string // empty: none
	noToken bool
}

func (p *pageFlag) add(f *pflag.FlagSet) {
	f.StringVar(&p.address, "dashboard", "", "also serve the live web page, on this `address` (see swarm dashboard)")
	f.Lookup("dashboard").NoOptDefVal = web.DefaultAddress
	f.BoolVar(&p.noToken, "no-token", false, "with --dashboard: ask for no token; every user of this machine can read the page")
}

// listen opens the page's port before the run is recorded. It returns nil without --dashboard.
func (p *pageFlag) listen(ctx context.Context, g *globals) (*web.Service, error) {
	return web.ListenBeside(ctx, g.pageOf(web.Options{Listen: p.address, Source: "--dashboard", NoToken: p.noToken}))
}

// pageOf completes a page's options with this process's settings. studies are users' studies to show.
func (g *globals) pageOf(o web.Options, studies ...configs.Study) web.Options {
	o.Home, o.Logger, o.Version = g.home, g.logger, version
	o.Studies = func(runs []store.Run) ([]stats.CompareOptions, error) { return study.Recorded(runs, studies...) }
	if !o.NoToken {
		o.Token = cmp.Or(o.Token, os.Getenv(resolve.DashboardTokenVariable))
	}
	return o
}

func newDashboardCommand(g *globals) *cobra.Command {
	var o web.Options
	var open bool
	var files []string
	cmd := &cobra.Command{
		Use:   "dashboard",
		Short: "Serve a live, read-only web page of all runs",
		Long: "dashboard serves a page about the runs under --home: live progress, curves of several experiments,\n" +
			"verdicts of experiments and studies, memory, events, logs and rollouts. The page is read-only and\n" +
			"loads nothing from other servers. By default it is reachable from this machine only.\n\n" +
			"The page asks for a token, which is part of the printed link. The default token is in the home's\n" +
			"file dashboard.token, which only you may read. If stdout is not a terminal, the link is printed\n" +
			"without the token. Scripts send it as Authorization: Bearer. --no-token lets every user of this\n" +
			"machine read the page.\n\n" +
			"Other machines send the token unencrypted unless you set --tls-cert and --tls-key. A tunnel, ssh -L\n" +
			"8420:127.0.0.1:8420 HOST, needs neither. /metrics is for Prometheus. Ctrl-C ends the dashboard, and\n" +
			"runs continue.",
		Example: "  swarm dashboard --open\n  swarm dashboard --listen 0.0.0.0:8420 --tls-cert cert.pem --tls-key key.pem",
		Args:    usage.NoArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			studies := make([]configs.Study, len(files))
			for i, name := range files {
				var err error
				if studies[i], err = study.Find(name); err != nil {
					return err
				}
			}
			return runDashboard(cmd.Context(), g, g.pageOf(o, studies...), open)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Listen, "listen", web.DefaultAddress, "`address` and port to listen on; port 0: any free port")
	f.StringVar(&o.Token, "token", "", "token of 16 to 256 characters that a client must send ("+resolve.DashboardTokenVariable+")")
	f.BoolVar(&o.NoToken, "no-token", false, "ask for no token: every user of this machine can read the page")
	f.StringVar(&o.TLSCert, "tls-cert", "", "`file` with the certificate chain, PEM")
	f.StringVar(&o.TLSKey, "tls-key", "", "`file` with its key, PEM")
	f.StringArrayVar(&files, "study", nil, "also show a `study` of your own, a YAML file (the built-in ones are shown without it)")
	f.BoolVar(&open, "open", false, "open the page in a browser")
	return cmd
}

func runDashboard(ctx context.Context, g *globals, o web.Options, open bool) error {
	ctx, interrupts := interrupt.Notify(ctx, g.stderr, "Stopping.")
	defer interrupts.Close()
	page, err := web.Listen(ctx, o)
	if err != nil {
		return interrupt.Exit(ctx, err)
	}
	if err := page.Look(ctx); err != nil {
		page.Close()
		return interrupt.Exit(ctx, err)
	}
	page.Tell(g.stdout, g.stderr)
	if open {
		page.Show(ctx)
	}
	if err := page.Serve(ctx); err != nil {
		return err
	}
	return interrupt.Exit(ctx, nil)
}
