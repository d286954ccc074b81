package export

import (
	"bytes"
	"fmt"
	"io"
	"path/filepath"
)

// Document reports the written files.
type Document struct {
	Path   string `json:"path"`
	Format string `json:"format"`
	Runs   int    `json:"runs"`
	Files  []File `json:"files"`
}

// Document returns the report of written files for programs.
func (r *Request) Document(files []File, runs int) (Document, error) {
	path, err := filepath.Abs(r.Out)
	if err != nil {
		return Document{}, fmt.Errorf("export: %w", err)
	}
	return Document{path, r.Format, runs, files}, nil
}

// Print prints the report of written files.
func (r *Request) Print(w io.Writer, files []File, runs int) error {
	var text bytes.Buffer
	rows, size := 0, int64(0)
	for _, f := range files {
		rows += f.Rows
		size += f.Bytes
		if r.Format != FormatTensorBoard {
			fmt.Fprintf(&text, "%-24s %8d rows\n", f.Path, f.Rows)
		}
	}
	what := "rows"
	if r.Format == FormatTensorBoard {
		what = "events"
	}
	fmt.Fprintf(&text, "wrote %s: runs %d, files %d, %s %d, %d kB\n", r.Out, runs, len(files), what, rows, (size+500)/1000)
	_, err := w.Write(text.Bytes())
	return err
}
