package main

import (
	"context"
	"log/slog"
	"path/filepath"

	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/node/exchange/membership"
	"github.com/sapo-swarm/swarm/node/exchange/natsbus"
	"github.com/sapo-swarm/swarm/node/exchange/sharedir"
)

// way is how a run's rollouts travel, as the process sees it that runs some of the nodes.
type way interface {
	// exchange is how this host's nodes reach the swarm.
	exchange() event.Exchange

	// purge drops what was shared before a round.
	purge(ctx context.Context, before int) error

	// tend keeps what was shared available until ctx ends. find is what a node of this host shared in a round, by its journal.
	tend(ctx context.Context, nodes []string, find natsbus.Find) error

	close()
}

// hostWay is a way that workers can use, too.
type hostWay interface {
	way

	// serve answers workers' requests until ctx ends.
	serve(ctx context.Context, desk membership.Desk) error

	// store shares what a worker's node offers.
	store(ctx context.Context, offer membership.Offer) error
}

// busWay is a NATS server, of this process or of somebody else's.
type busWay struct {
	server      *natsbus.Server
	run         string
	credentials string // file, of somebody else's
}

// openBus opens the message bus of a run, with its stream.
func openBus(ctx context.Context, c *coordinator, options natsbus.ServerOptions) (*busWay, error) {
	options.Dir, options.Logger = filepath.Join(c.dir, "exchange"), c.g.logger
	server, err := natsbus.Start(options)
	if err != nil {
		return nil, err
	}
	if err := server.CreateStream(ctx, c.run); err != nil {
		server.Shutdown()
		return nil, err
	}
	return &busWay{server, c.run, options.Credentials}, nil
}

func (w *busWay) exchange() event.Exchange {
	return event.Exchange{Kind: event.ExchangeNATS, URL: w.server.URL(), Token: w.server.Token(), Credentials: w.credentials}
}

func (w *busWay) purge(ctx context.Context, before int) error {
	return w.server.Purge(ctx, w.run, before)
}

func (w *busWay) tend(ctx context.Context, nodes []string, find natsbus.Find) error {
	return w.server.Tend(ctx, w.run, nodes, find)
}

func (w *busWay) serve(ctx context.Context, desk membership.Desk) error {
	return w.server.ServeDesk(ctx, desk)
}

func (w *busWay) store(ctx context.Context, offer membership.Offer) error {
	return w.server.StoreOffer(ctx, w.run, offer)
}

func (w *busWay) close() { w.server.Shutdown() }

// folderWay is a folder that something else keeps in step between hosts.
type folderWay struct {
	dir    string // of the experiment
	run    string
	compat bool
	logger *slog.Logger
}

func (w *folderWay) exchange() event.Exchange {
	return event.Exchange{Kind: event.ExchangeDir, Dir: w.dir, Compat: w.compat}
}

func (w *folderWay) purge(ctx context.Context, before int) error {
	return sharedir.Sweep(ctx, w.dir, w.run, before)
}

// tend has nothing to do: what lies in the folder stays there.
func (w *folderWay) tend(ctx context.Context, _ []string, _ natsbus.Find) error {
	<-ctx.Done()
	return nil
}

func (w *folderWay) serve(ctx context.Context, desk membership.Desk) error {
	return sharedir.ServeDesk(ctx, w.dir, w.run, desk, sharedir.ServeOptions{Logger: w.logger})
}

func (w *folderWay) store(ctx context.Context, offer membership.Offer) error {
	return sharedir.Store(ctx, w.dir, w.run, offer)
}

func (w *folderWay) close() {}

// workersWay is the coordinator's, which keeps it.
type workersWay struct{ to event.Exchange }

func (w *workersWay) exchange() event.Exchange { return w.to }

func (w *workersWay) purge(context.Context, int) error { return nil }

func (w *workersWay) tend(ctx context.Context, _ []string, _ natsbus.Find) error {
	<-ctx.Done()
	return nil
}

func (w *workersWay) close() {}
