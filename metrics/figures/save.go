package figures

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/files"
)

// File is a written figure.
type File struct {
	Path  string `json:"path"` // absolute
	Bytes int    `json:"bytes"`
}

// Save writes the figures as SVG files to a folder, and creates the folder if it is missing. Other files in the folder
// stay. It fails if there is nothing to draw.
func (d *Data) Save(folder string) ([]File, error) {
	drawn := d.Draw()
	if len(drawn) == 0 {
		return nil, fail.Hint(errors.New("there is nothing to draw: no run has done a round or a held-out evaluation"),
			"again when a round is done; swarm status shows the progress of the runs")
	}
	dir, err := filepath.Abs(folder)
	if err == nil {
		err = os.MkdirAll(dir, 0o755)
	}
	var wrote []File
	for _, f := range drawn {
		if err != nil {
			break
		}
		path := filepath.Join(dir, f.Name+".svg")
		err = files.Write(path, f.SVG)
		wrote = append(wrote, File{path, len(f.SVG)})
	}
	var reason *fs.PathError
	if errors.As(err, &reason) {
		return nil, fail.Hint(fmt.Errorf("can't write figures to %s: %w", folder, reason.Err), "another folder with --figures")
	}
	return wrote, err
}
