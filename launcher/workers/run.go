package workers

import (
	"context"
	"encoding/json"
	"log/slog"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/internal/layout"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/store"
	"github.com/sapo-swarm/swarm/node/exchange/membership"
)

// Run is a run of this host, as both sides see it.
type Run struct {
	Name     string
	Dir      string // its folder
	Home     layout.Home
	Config   configs.Config
	Document json.RawMessage   // Config, as its nodes get it
	Inputs   map[string]string // hashes of what is read beside the configuration
	Nodes    []string          // of this host
	Version  string            // of this program
	Reader   *store.Reader
	Store    *store.Store
	Logger   *slog.Logger
}

// Events is where both sides report what happens. Its methods may be called from several goroutines.
type Events interface {
	Record(e event.Event)

	// Deliver takes what a worker's nodes reported: once it returns nil it is in the database for good.
	Deliver(ctx context.Context, worker string, d membership.Delivery, list []event.Event) error

	// Warn records a warning about the run itself.
	Warn(message string)

	// Fail stops the run in order.
	Fail(why error)

	// Go runs work until the run ends; the run waits for it.
	Go(work func())
}
