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

// PIDFileName is the name of the file in a node's folder that identifies the processes running there.
const PIDFileName = "pid.json"

// temporary is the suffix of a pid file that is being written.
const temporary = ".tmp"

// errTorn reports a pid file that cannot be parsed.
var errTorn = errors.New("not a pid file")

// pidFile is the content of a pid file.
type pidFile struct {
	Process Identity   `json:"process"`
	Parent  Identity   `json:"parent"`         // the launcher that owns the process
	Also    []Identity `json:"also,omitempty"` // detached processes
}

// maxPIDFile bounds a pid file, in bytes.
const maxPIDFile = 1 << 20

// opener opens files: of a folder, or of the whole file system.
type opener func(path string, flag int, perm fs.FileMode) (*os.File, error)

func readPIDFile(path string) (pidFile, error) { return openPIDFile(os.OpenFile, path) }

// Recorded returns the process in a pid file, if it is still running.
func Recorded(path string) (Identity, bool) {
	f, err := readPIDFile(path)
	return f.Process, err == nil && !f.Process.Elsewhere() && f.Process.Alive()
}

// openPIDFile reads a pid file. It returns errTorn for a file that this package did not write, or that a crash
// truncated.
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
	if f.Process.PID == 1 { // a launcher may be the first process of a container, but a child may not
		return pidFile{}, fmt.Errorf("%s: %w: it names the first process", path, errTorn)
	}
	return f, nil
}

// write replaces the file atomically. It does nothing for an empty path.
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
			continue // a sweep removed the temporary file before it had content
		}
		if err != nil {
			return fmt.Errorf("write pid file: %w", err)
		}
		return nil
	}
}
