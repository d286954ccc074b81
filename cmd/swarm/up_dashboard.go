package main

import (
	"context"
	"errors"
	"os"
	"syscall"

	"github.com/spf13/pflag"
)

// pageFlag is up --dashboard: a page about all runs of the home, for as long as the run lasts.
type pageFlag struct {
	address string // empty: none
}

func (p *pageFlag) add(f *pflag.FlagSet) {
	f.StringVar(&p.address, "dashboard", "", "serve a live web page meanwhile, on this `address` (see swarm dashboard)")
	f.Lookup("dashboard").NoOptDefVal = defaultDashboard
}

// listen opens the page's port before anything is recorded. It is nil where no page was asked for. The default port may be another run's:
// then it is any free one.
func (p *pageFlag) listen(ctx context.Context, g *globals) (*dashboardService, error) {
	if p.address == "" {
		return nil, nil
	}
	o := dashboardOptions{listen: p.address, source: "--dashboard", token: os.Getenv(dashboardTokenVariable)}
	d, err := g.listenDashboard(ctx, o)
	if p.address == defaultDashboard && errors.Is(err, syscall.EADDRINUSE) {
		o.listen = "127.0.0.1:0"
		d, err = g.listenDashboard(ctx, o)
	}
	return d, err
}
