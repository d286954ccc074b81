package supervise

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"

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

// maxPIDFile bounds a pid file, in bytes.
const maxPIDFile = 1 << 20

// opener opens files: of a folder, or of the whole file system.
type opener func(path string, flag int, perm fs.FileMode) (*os.File, error)

func readPIDFile(path string) (pidFile, error) { return openPIDFile(os.OpenFile, path) }

// Recorded is the process that a pid file names, if it is that process and lives.
func Recorded(path string) (Identity, bool) {
	f, err := readPIDFile(path)
	return f.Process, err == nil && !f.Process.Elsewhere() && f.Process.Alive()
}

// openPIDFile returns errTorn for what this package didn't write whole: another program's file, or one that a crash cut
// short.
func openPIDFile(open opener, path string) (pidFile, error) {
	file, err := open(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return pidFile{}, err
	}
	defer file.Close()
	var f pidFile
	decoder := json.NewDecoder(io.LimitReader(file, maxPIDFile))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&f); err != nil {
		return pidFile{}, fmt.Errorf("%s: %w: %w", path, errTorn, err)
	}
	for _, id := range append([]Identity{f.Process, f.Parent}, f.Also...) {
		if id.PID <= 0 || id.Start == 0 || id.Boot == "" {
			return pidFile{}, fmt.Errorf("%s: %w: it names no process", path, errTorn)
		}
	}
	if f.Process.PID == 1 { // a launcher may be the first process of a container, a child is not
		return pidFile{}, fmt.Errorf("%s: %w: it names the first process", path, errTorn)
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
		err := files.Replace(path, path+temporary, append(data, '\n'), 0o600)
		if errors.Is(err, fs.ErrNotExist) && try == 0 {
			continue // a sweep took it for a dead launcher's before its content was there
		}
		if err != nil {
			return fmt.Errorf("write pid file: %w", err)
		}
		return nil
	}
}
