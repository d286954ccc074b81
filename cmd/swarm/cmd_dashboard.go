package main

import (
	"cmp"
	"context"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sapo-swarm/swarm/configs/resolve"
	"github.com/sapo-swarm/swarm/internal/interrupt"
	"github.com/sapo-swarm/swarm/internal/usage"
	"github.com/sapo-swarm/swarm/launcher/web"
)

// pageFlag holds up --dashboard: a page about all runs of the home, served until the run ends.
type pageFlag struct {
	address string // empty: none
	noToken bool
}

func (p *pageFlag) add(f *pflag.FlagSet) {
	f.StringVar(&p.address, "dashboard", "", "serve a live web page meanwhile, on this `address` (see swarm dashboard)")
	f.Lookup("dashboard").NoOptDefVal = web.DefaultAddress
	f.BoolVar(&p.noToken, "no-token", false, "with --dashboard: whoever uses this machine may read the page")
}

// listen opens the page's port before the run is recorded. It returns nil without --dashboard.
func (p *pageFlag) listen(ctx context.Context, g *globals) (*web.Service, error) {
	return web.ListenBeside(ctx, g.pageOf(web.Options{Listen: p.address, Source: "--dashboard", NoToken: p.noToken}))
}

// pageOf completes a page's options with this process's settings.
func (g *globals) pageOf(o web.Options) web.Options {
	o.Home, o.Logger, o.Version = g.home, g.logger, version
	if !o.NoToken {
		o.Token = cmp.Or(o.Token, os.Getenv(resolve.DashboardTokenVariable))
	}
	return o
}

func newDashboardCommand(g *globals) *cobra.Command {
	var o web.Options
	var open bool
	cmd := &cobra.Command{
		Use:   "dashboard",
		Short: "Serve a live, read-only web page of all runs",
		Long: "dashboard serves a page about the runs under --home: live progress, experiments laid over one another, verdicts, memory, events, logs\n" +
			"and rollouts. It only reads runs, loads nothing from elsewhere, and by default listens on this machine only.\n\n" +
			"The page asks for a token, which the printed link holds. Without --token it is the home's, in dashboard.token, a file that only you may\n" +
			"read. Where stdout is no terminal the link is printed without it. Scripts send it as Authorization: Bearer. --no-token lets everybody on\n" +
			"this machine read. Beyond this machine the token travels in clear without --tls-cert and --tls-key; ssh -L 8420:127.0.0.1:8420 HOST needs\n" +
			"neither. /metrics is for Prometheus. Ctrl-C ends it; runs go on.",
		Example: "  swarm dashboard --open\n  swarm dashboard --listen 0.0.0.0:8420 --tls-cert cert.pem --tls-key key.pem",
		Args:    usage.NoArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			return runDashboard(cmd.Context(), g, o, open)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Listen, "listen", web.DefaultAddress, "`address` and port to listen on; port 0: any free one")
	f.StringVar(&o.Token, "token", "", "16 to 256 characters that whoever asks must know ("+resolve.DashboardTokenVariable+")")
	f.BoolVar(&o.NoToken, "no-token", false, "ask for no token: whoever uses this machine may read the page")
	f.StringVar(&o.TLSCert, "tls-cert", "", "`file` with the certificate chain, PEM")
	f.StringVar(&o.TLSKey, "tls-key", "", "`file` with its key, PEM")
	f.BoolVar(&open, "open", false, "open the page in a browser")
	return cmd
}

func runDashboard(ctx context.Context, g *globals, o web.Options, open bool) error {
	ctx, interrupts := interrupt.Notify(ctx, g.stderr, "Stopping.")
	defer interrupts.Close()
	page, err := web.Listen(ctx, g.pageOf(o))
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
