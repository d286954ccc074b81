// Package runs implements the user's operations on the runs and jobs of a home: list, show, follow, read logs,
// stop, remove, summarize. It reads the home's database, and returns documents that it can also print. It trains
// nothing, and must not import cmd.
package runs

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/internal/layout"
	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/launcher/commandline"
	"github.com/sapo-swarm/swarm/launcher/coordinator"
	"github.com/sapo-swarm/swarm/launcher/plan"
	"github.com/sapo-swarm/swarm/metrics/stats"
	"github.com/sapo-swarm/swarm/metrics/store"
	"github.com/sapo-swarm/swarm/metrics/terminal"
)

// Viewer is the home and the terminal of a user who looks at runs.
type Viewer struct {
	Home           layout.Home
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Interactive    bool // Stdin and Stdout are a terminal that can show the live view
	Advice         commandline.Advice
}

// Summarise prints the summary of a run, as swarm up does at its end.
func (o Viewer) Summarise(reader *store.Reader, run store.Run) error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	var config configs.Config
	if err := json.Unmarshal(run.Config, &config); err != nil {
		return fmt.Errorf("read the configuration of %s: %w", run.Run, err)
	}
	return o.summarise(ctx, reader, run.Run, config, "", false)
}

// Done prints the summary of a run that has nothing left to do.
func (o Viewer) Done(ctx context.Context, run store.Run, p plan.Planned, asJSON bool) error {
	reader, err := store.OpenReader(ctx, o.Home.Database())
	if err != nil {
		return err
	}
	defer reader.Close()
	if !asJSON {
		fmt.Fprintf(o.Stdout, "%s has already done all its %s. --rounds N extends it, --fresh begins a new run.\n", run.Run,
			units.Plural(run.Rounds, "round"))
	}
	return o.summarise(ctx, reader, run.Run, p.Config, p.Trainer.Command, asJSON)
}

// summarise prints the summary of a run and the next commands. trainer is its --node-command.
func (o Viewer) summarise(ctx context.Context, reader *store.Reader, run string, config configs.Config, trainer string, asJSON bool) error {
	summary, err := coordinator.Summary(ctx, reader, run)
	if err != nil {
		return err
	}
	place := terminal.Place{Database: o.Home.Database(), Folder: o.Home.Run(summary.Run)}
	place.Next = coordinator.Next(o.Advice.Program, summary, o.Advice.GoesOn, func(s stats.Summary) string { return o.Advice.Baseline(config, trainer, s) })
	return coordinator.Summarise(o.Stdout, summary, asJSON, place)
}
