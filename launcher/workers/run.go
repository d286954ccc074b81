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

// Run is a run of this host, as coordinator or as worker.
type Run struct {
	Name     string
	Dir      string // its folder
	Home     layout.Home
	Config   configs.Config
	Document json.RawMessage   // Config as its nodes get it
	Inputs   map[string]string // hashes of the run's inputs besides the configuration
	Nodes    []string          // of this host
	Version  string            // of this program
	Reader   *store.Reader
	Store    *store.Store
	Logger   *slog.Logger
}

// Events receives reports from both sides. Its methods are safe for concurrent use.
type Events interface {
	Record(e event.Event)

	// Deliver records what a worker's nodes reported. Once it returns nil, the events are durable in the database.
	Deliver(ctx context.Context, worker string, d membership.Delivery, list []event.Event) error

	// Warn records a warning about the run itself.
	Warn(message string)

	// Fail stops the run cleanly.
	Fail(why error)

	// Go runs work in a goroutine. The run waits for its end.
	Go(work func())
}
