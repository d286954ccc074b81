package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
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

// pageMemory is what a page may take of this process's memory beside memoryLimit: the series of some long runs.
const pageMemory = 96 << 20

// servePage answers the page's requests until the function it returns is called. A page that fails is no reason to end a run.
func (c *coordinator) servePage(logger *slog.Logger) (stop func()) {
	if c.page == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := c.page.serve(ctx); err != nil {
			logger.Error("the dashboard has ended; the run goes on", "error", err)
		}
	})
	return func() {
		cancel()
		serving.Wait()
	}
}

// tellPage says where the page is.
func (c *coordinator) tellPage() {
	if c.page == nil {
		return
	}
	fmt.Fprintf(c.g.stdout, "Dashboard: %s\n", c.page.url)
	for _, note := range c.page.notes {
		fmt.Fprintln(c.g.stderr, note)
	}
}
