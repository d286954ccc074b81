package lifecycle

import (
	"context"
	"errors"
	"fmt"

	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/layout"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// OpenReader opens a home's database for reading, and says what to do where nothing has run there yet.
func OpenReader(ctx context.Context, home layout.Home) (*store.Reader, error) {
	reader, err := store.OpenReader(ctx, home.Database())
	if errors.Is(err, store.ErrNoDatabase) {
		return nil, fail.Hint(fmt.Errorf("nothing has run under %s yet", home), "swarm up --config 4loc4ext, or another --home")
	}
	return reader, err
}

// NotFound says what to do about a name that the database does not know; empty: any run.
func NotFound(err error, name string) error {
	if !errors.Is(err, store.ErrNotFound) {
		return err
	}
	if name == "" {
		return fail.Hint(errors.New("no run is recorded yet"), "swarm up --config 4loc4ext")
	}
	return fail.Usage(fmt.Errorf("no run or experiment %q is recorded", name), "swarm ls")
}

// UnknownExperiment is a name that no experiment has, where experiments are compared: it may be a run's.
func UnknownExperiment(ctx context.Context, reader *store.Reader, name string) error {
	if s, err := reader.Snapshot(ctx, name); err == nil && s.Run.Run == name {
		return fail.Usage(fmt.Errorf("%q is a run, but compare takes experiments", name), "its experiment, "+s.Run.Experiment)
	}
	return fail.Usage(fmt.Errorf("no experiment %q is recorded", name), "swarm ls")
}
