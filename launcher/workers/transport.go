// Package workers connects other hosts to a run. On the coordinator's side, Admission lets their nodes in and
// records what they deliver. On a worker's side, Worker joins another host's run, keeps its nodes' events in an
// outbox on disk, and delivers them. The package needs a run's folder, database and configuration. It must not
// import packages that train a run (launcher/coordinator).
package workers

import (
	"context"
	"log/slog"
	"path/filepath"

	"github.com/sapo-swarm/swarm/node/exchange/membership"
	"github.com/sapo-swarm/swarm/node/exchange/natsbus"
	"github.com/sapo-swarm/swarm/node/exchange/sharedir"
	"github.com/sapo-swarm/swarm/node/protocol"
)

// Transport carries a run's rollouts, as seen by a process that runs some of the nodes.
type Transport interface {
	// Exchange returns how this host's nodes reach the swarm.
	Exchange() protocol.Exchange

	// Purge removes rollouts shared before a round.
	Purge(ctx context.Context, before int) error

	// Tend keeps shared rollouts available until ctx ends. find returns what a node of this host shared in a round,
	// from its journal.
	Tend(ctx context.Context, nodes []string, find natsbus.Find) error

	Close()
}

// hostTransport is a Transport that workers can use too.
type hostTransport interface {
	Transport

	// serve answers workers' requests until ctx ends.
	serve(ctx context.Context, admission membership.Admission) error

	// store shares rollouts that a worker's node offers.
	store(ctx context.Context, offer membership.Offer) error
}

// busTransport is a NATS server of this process or of another.
type busTransport struct {
	server      *natsbus.Server
	run         string
	credentials string // credentials file for a server of another process
}

// Local opens the message bus of a run without other hosts.
func Local(ctx context.Context, run Run) (Transport, error) {
	return openBus(ctx, run, natsbus.ServerOptions{})
}

// openBus opens the message bus of a run, with its stream.
func openBus(ctx context.Context, run Run, options natsbus.ServerOptions) (*busTransport, error) {
	options.Dir, options.Logger = filepath.Join(run.Dir, "exchange"), run.Logger
	server, err := natsbus.Start(options)
	if err != nil {
		return nil, err
	}
	if err := server.CreateStream(ctx, run.Name); err != nil {
		server.Shutdown()
		return nil, err
	}
	return &busTransport{server, run.Name, options.Credentials}, nil
}

func (w *busTransport) Exchange() protocol.Exchange {
	return protocol.Exchange{Kind: protocol.ExchangeNATS, URL: w.server.URL(), Token: w.server.Token(), Credentials: w.credentials}
}

func (w *busTransport) Purge(ctx context.Context, before int) error {
	return w.server.Purge(ctx, w.run, before)
}

func (w *busTransport) Tend(ctx context.Context, nodes []string, find natsbus.Find) error {
	return w.server.Tend(ctx, w.run, nodes, find)
}

func (w *busTransport) serve(ctx context.Context, admission membership.Admission) error {
	return w.server.ServeAdmission(ctx, admission)
}

func (w *busTransport) store(ctx context.Context, offer membership.Offer) error {
	return w.server.StoreOffer(ctx, w.run, offer)
}

func (w *busTransport) Close() { w.server.Shutdown() }

// folderTransport is a folder that another program synchronizes between hosts.
type folderTransport struct {
	dir    string // the experiment's folder
	run    string
	compat bool
	logger *slog.Logger
}

func (w *folderTransport) Exchange() protocol.Exchange {
	return protocol.Exchange{Kind: protocol.ExchangeDir, Dir: w.dir, Compat: w.compat}
}

func (w *folderTransport) Purge(ctx context.Context, before int) error {
	return sharedir.Sweep(ctx, w.dir, w.run, before)
}

// Tend has nothing to do: files stay in the folder.
func (w *folderTransport) Tend(ctx context.Context, _ []string, _ natsbus.Find) error {
	<-ctx.Done()
	return nil
}

func (w *folderTransport) serve(ctx context.Context, admission membership.Admission) error {
	return sharedir.ServeAdmission(ctx, w.dir, w.run, admission, sharedir.ServeOptions{Logger: w.logger})
}

func (w *folderTransport) store(ctx context.Context, offer membership.Offer) error {
	return sharedir.Store(ctx, w.dir, w.run, offer)
}

func (w *folderTransport) Close() {}

// workerTransport is the coordinator's transport as seen by a worker. The coordinator maintains the rollouts.
type workerTransport struct{ to protocol.Exchange }

func (w *workerTransport) Exchange() protocol.Exchange { return w.to }

func (w *workerTransport) Purge(context.Context, int) error { return nil }

func (w *workerTransport) Tend(ctx context.Context, _ []string, _ natsbus.Find) error {
	<-ctx.Done()
	return nil
}

func (w *workerTransport) Close() {}
