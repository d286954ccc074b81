package supervise

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/sapo-swarm/swarm/internal/files"
)

// PIDFileName is the file in a node's folder that says which processes run there.
const PIDFileName = "pid.json"

// temporary ends the name of a pid file that is being written.
const temporary = ".tmp"

// errTorn is returned for a pid file that can't be understood.
var errTorn = errors.New("not a pid file")

// pidFile is the content of a PIDFileName.
type pidFile struct {
	Process Identity   `json:"process"`
	Parent  Identity   `json:"parent"`         // the launcher that owns it
	Also    []Identity `json:"also,omitempty"` // started by the process, in groups of their own
}

func readPIDFile(path string) (pidFile, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return pidFile{}, err
	}
	var f pidFile
	if err := json.Unmarshal(data, &f); err != nil {
		return pidFile{}, fmt.Errorf("%s: %w: %w", path, errTorn, err)
	}
	return f, nil
}

// write replaces the file whole. An empty path writes nothing.
func (f pidFile) write(path string) error {
	if path == "" {
		return nil
	}
	data, err := json.Marshal(f)
	if err != nil {
		return fmt.Errorf("encode pid file: %w", err)
	}
	for try := 0; ; try++ {
		err := files.Replace(path, path+temporary, append(data, '\n'), 0o644)
		if errors.Is(err, fs.ErrNotExist) && try == 0 {
			continue // a sweep took it for a dead launcher's before its content was there
		}
		if err != nil {
			return fmt.Errorf("write pid file: %w", err)
		}
		return nil
	}
}
