package main

import (
	"cmp"
	"context"
	"fmt"
	"os"

	"github.com/sapo-swarm/swarm/internal/interrupt"
	"github.com/spf13/cobra"
)

// defaultDashboard is where a dashboard listens unless told otherwise.
const defaultDashboard = "127.0.0.1:8420"

// dashboardTokenVariable gives --token where the flag isn't: arguments can be read by everybody on a machine.
const dashboardTokenVariable = "SWARM_DASHBOARD_TOKEN"

// dashboardOptions say where a dashboard listens, and to whom.
type dashboardOptions struct {
	listen, token   string
	source          string // the flag that says where to listen; empty: --listen
	tlsCert, tlsKey string
	open            bool
}

func newDashboardCommand(g *globals) *cobra.Command {
	var o dashboardOptions
	cmd := &cobra.Command{
		Use:   "dashboard",
		Short: "Serve a live, read-only web page about all runs of this home",
		Long: "dashboard serves a page about the runs under --home: live progress, experiments laid over one another, verdicts, memory, events, logs\n" +
			"and rollouts. It only reads, loads nothing from elsewhere, and listens on this machine alone unless told otherwise. Whoever is to see\n" +
			"it from beyond needs a token, which is made and printed where none is given, and travels in clear without --tls-cert and --tls-key;\n" +
			"ssh -L 8420:127.0.0.1:8420 HOST needs neither. /metrics is for Prometheus. Ctrl-C ends it; runs go on.",
		Example: "  swarm dashboard --open\n  swarm dashboard --listen 0.0.0.0:8420 --tls-cert cert.pem --tls-key key.pem",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			return runDashboard(cmd.Context(), g, o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.listen, "listen", defaultDashboard, "`address` and port to listen on; port 0: any free one")
	f.StringVar(&o.token, "token", "", "16 to 256 characters that whoever asks must know ("+dashboardTokenVariable+")")
	f.StringVar(&o.tlsCert, "tls-cert", "", "`file` with the certificate chain, PEM")
	f.StringVar(&o.tlsKey, "tls-key", "", "`file` with its key, PEM")
	f.BoolVar(&o.open, "open", false, "open the page in a browser")
	return cmd
}

func runDashboard(ctx context.Context, g *globals, o dashboardOptions) error {
	o.token = cmp.Or(o.token, os.Getenv(dashboardTokenVariable))
	ctx, interrupts := interrupt.Notify(ctx, g.stderr, "Stopping.")
	defer interrupts.Close()
	service, err := g.listenDashboard(ctx, o)
	if err != nil {
		return interrupt.Exit(ctx, err)
	}
	if err := service.look(ctx, g); err != nil {
		service.close()
		return interrupt.Exit(ctx, err)
	}
	fmt.Fprintf(g.stdout, "Dashboard: %s\n", service.url)
	for _, note := range service.notes {
		fmt.Fprintln(g.stderr, note)
	}
	if o.open {
		service.show(ctx, g)
	}
	if err := service.Serve(ctx); err != nil {
		return err
	}
	return interrupt.Exit(ctx, nil)
}
