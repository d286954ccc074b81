package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/sapo-swarm/swarm/metrics/figures"
	"github.com/sapo-swarm/swarm/metrics/store"
	"github.com/sapo-swarm/swarm/node/atomicfile"
)

// figureFile is a figure that was written.
type figureFile struct {
	Path  string `json:"path"`
	Bytes int    `json:"bytes"`
}

// writeFigures draws the runs that o asks for to SVG files in the folder o.figures, which it makes where it is missing. Files of other names
// stay.
func writeFigures(ctx context.Context, reader *store.Reader, o *reportOptions) ([]figureFile, error) {
	data, err := figures.Read(ctx, reader, o.CompareOptions, o.Options.Window)
	if err != nil {
		return nil, o.unreadable(ctx, reader, err)
	}
	dir, err := filepath.Abs(o.figures)
	if err == nil {
		err = os.MkdirAll(dir, 0o755)
	}
	var files []figureFile
	for _, f := range data.Draw() {
		if err != nil {
			break
		}
		path := filepath.Join(dir, f.Name+".svg")
		err = atomicfile.Write(path, f.SVG)
		files = append(files, figureFile{path, len(f.SVG)})
	}
	var reason *fs.PathError
	if errors.As(err, &reason) {
		return nil, &hintError{fmt.Errorf("can't write figures to %s: %w", o.figures, reason.Err), "another folder with --figures"}
	}
	return files, err
}

// tellFigures says where figures are.
func tellFigures(out io.Writer, files []figureFile, output string) error {
	if output == "json" {
		return writeJSON(out, struct {
			Figures []figureFile `json:"figures"`
		}{files})
	}
	for _, f := range files {
		if _, err := fmt.Fprintf(out, "wrote %s: %d kB\n", f.Path, (f.Bytes+500)/1000); err != nil {
			return fmt.Errorf("write the result: %w", err)
		}
	}
	return nil
}
