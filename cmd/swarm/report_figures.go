package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/files"
	"github.com/sapo-swarm/swarm/metrics/figures"
	"github.com/sapo-swarm/swarm/metrics/query"
	"github.com/sapo-swarm/swarm/metrics/stats"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// figureFile is a figure that was written.
type figureFile struct {
	Path  string `json:"path"`
	Bytes int    `json:"bytes"`
}

// writeFigures draws the runs that o asks for to SVG files in the folder o.figures, which it makes where it is missing. Files of other names
// stay. That there is nothing to draw is an error.
func writeFigures(ctx context.Context, reader *store.Reader, o *reportOptions) ([]figureFile, error) {
	data, err := figures.Read(ctx, reader, o.CompareOptions, o.Options.Window)
	if err != nil {
		return nil, o.unreadable(ctx, reader, err)
	}
	drawn := data.Draw()
	if len(drawn) == 0 {
		return nil, fail.Hint(errors.New("there is nothing to draw: no run has done a round or made a held-out evaluation"),
			"again once a round is done; swarm status shows how far the runs are")

	}
	dir, err := filepath.Abs(o.figures)
	if err == nil {
		err = os.MkdirAll(dir, 0o755)
	}
	var wrote []figureFile
	for _, f := range drawn {
		if err != nil {
			break
		}
		path := filepath.Join(dir, f.Name+".svg")
		err = files.Write(path, f.SVG)
		wrote = append(wrote, figureFile{path, len(f.SVG)})
	}
	var reason *fs.PathError
	if errors.As(err, &reason) {
		return nil, fail.Hint(fmt.Errorf("can't write figures to %s: %w", o.figures, reason.Err), "another folder with --figures")
	}
	return wrote, err
}

// figuresDocument is `report --figures DIR -o json` without --out.
type figuresDocument struct {
	Figures []figureFile `json:"figures"`
	Study   *stats.Study `json:"study,omitempty"` // with --study
}

// tellFigures says where figures are, where nothing else is written, and a study's verdict.
func (o *reportOptions) tellFigures(ctx context.Context, out io.Writer, reader *store.Reader, files []figureFile) error {
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
	return printStudy(out, study)
}

func printFigures(out io.Writer, files []figureFile) error {
	for _, f := range files {
		if _, err := fmt.Fprintf(out, "wrote %s: %d kB\n", f.Path, (f.Bytes+500)/1000); err != nil {
			return fmt.Errorf("write the result: %w", err)
		}
	}
	return nil
}
