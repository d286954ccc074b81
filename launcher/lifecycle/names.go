package lifecycle

import (
	"context"
	"errors"
	"fmt"

	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/layout"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// OpenReader opens a home's database for reading. If nothing has run there yet, the error says what to do.
func OpenReader(ctx context.Context, home layout.Home) (*store.Reader, error) {
	reader, err := store.OpenReader(ctx, home.Database())
	if errors.Is(err, store.ErrNoDatabase) {
		return nil, fail.Hint(&emptyHomeError{home}, "swarm up --config 4loc4ext, or another --home")
	}
	return reader, err
}

// emptyHomeError wraps store.ErrNoDatabase.
type emptyHomeError struct{ home layout.Home }

func (e *emptyHomeError) Error() string { return fmt.Sprintf("nothing has run under %s yet", e.home) }
func (e *emptyHomeError) Unwrap() error { return store.ErrNoDatabase }

// NotFound adds a remedy to an error for a name that is not in the database. An empty name means any run.
func NotFound(err error, name string) error {
	if !errors.Is(err, store.ErrNotFound) {
		return err
	}
	if name == "" {
		return fail.Hint(errors.New("no run is recorded yet"), "swarm up --config 4loc4ext")
	}
	return fail.Usage(fmt.Errorf("no run or experiment %q is recorded", name), "swarm ls")
}

// UnknownExperiment returns the error for a name that is not an experiment, in commands that compare experiments.
// The name may be a run's.
func UnknownExperiment(ctx context.Context, reader *store.Reader, name string) error {
	if s, err := reader.Snapshot(ctx, name); err == nil && s.Run.Run == name {
		return fail.Usage(fmt.Errorf("%q is a run, but compare takes experiments", name), "its experiment, "+s.Run.Experiment)
	}
	return fail.Usage(fmt.Errorf("no experiment %q is recorded", name), "swarm ls")
}
