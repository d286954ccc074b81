package main

import (
	"context"
	"fmt"
	"io"

	"github.com/sapo-swarm/swarm/metrics/figures"
	"github.com/sapo-swarm/swarm/metrics/query"
	"github.com/sapo-swarm/swarm/metrics/stats"
	"github.com/sapo-swarm/swarm/metrics/store"
	"github.com/sapo-swarm/swarm/metrics/terminal"
)

// writeFigures draws the runs that o selects to SVG files in the folder o.figures. If there is nothing to draw, it
// returns an error.
func writeFigures(ctx context.Context, reader *store.Reader, o *reportOptions) ([]figures.File, error) {
	data, err := figures.Read(ctx, reader, o.CompareOptions, stats.CurveOptions{Window: o.Options.Window, Per: o.Options.Per, Single: o.Options.Single})
	if err != nil {
		return nil, o.unreadable(ctx, reader, err)
	}
	return data.Save(o.figures)
}

// figuresDocument is the output of `report --figures DIR -o json` without --out.
type figuresDocument struct {
	Figures []figures.File `json:"figures"`
	Study   *stats.Study   `json:"study,omitempty"` // with --study
}

// tellFigures prints the figures' paths and a study's verdict. It is called if no report is written.
func (o *reportOptions) tellFigures(ctx context.Context, out io.Writer, reader *store.Reader, files []figures.File) error {
	var study *stats.Study
	if o.Study != nil {
		comparison, err := query.Compare(ctx, reader, o.CompareOptions)
		if err != nil {
			return o.unreadable(ctx, reader, err)
		}
		study = comparison.Study
	}
	if o.output == "json" {
		return writeJSON(out, figuresDocument{files, study})
	}
	if err := printFigures(out, files); err != nil {
		return err
	}
	return terminal.PrintStudy(out, study)
}

func printFigures(out io.Writer, files []figures.File) error {
	for _, f := range files {
		if _, err := fmt.Fprintf(out, "wrote %s: %d kB\n", f.Path, (f.Bytes+500)/1000); err != nil {
			return fmt.Errorf("write the result: %w", err)
		}
	}
	return nil
}
