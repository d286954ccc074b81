package mps

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/sapo-swarm/swarm/internal/files"
	"github.com/sapo-swarm/swarm/launcher/supervise"
)

// recordName is the file in a run's folder that names the daemon.
const recordName = "mps.json"

// record is the content of a recordName file.
type record struct {
	Daemon  supervise.Identity `json:"daemon"` // zero until the daemon answers
	Parent  supervise.Identity `json:"parent"` // the coordinator that owns it
	Program string             `json:"program"`
	Pipe    string             `json:"pipe"`
	Device  string             `json:"device"`
}

// record writes the daemon's identity and pipe directory to the record, atomically.
func (d *daemon) record() error {
	parent, err := supervise.Identify(os.Getpid())
	if err != nil {
		return fmt.Errorf("mps: %w", err)
	}
	data, err := json.Marshal(record{Daemon: d.id, Parent: parent, Program: d.control.program, Pipe: d.pipe, Device: d.device})
	if err != nil {
		return fmt.Errorf("mps: encode record: %w", err)
	}
	if err := files.WriteSecret(d.path, append(data, '\n')); err != nil {
		return fmt.Errorf("mps: write record: %w", err)
	}
	return nil
}

// Sweep ends the daemons of dead coordinators, by the records in and below dir. It removes the records and the pipe
// directories. A daemon runs in its own session and always outlives a killed coordinator. Sweep leaves the daemons of
// a living coordinator alone. It identifies processes by pid, start time and boot. Call it after
// supervise.SweepOrphans, which ends the daemons' clients. It returns the pids of the daemons that ran.
func Sweep(ctx context.Context, dir string) ([]int, error) {
	var ended []int
	var failures []error
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		if entry.Name() != recordName || !entry.Type().IsRegular() {
			return ctx.Err()
		}
		pid, err := sweepOne(ctx, path)
		if pid > 0 {
			ended = append(ended, pid)
		}
		if err != nil {
			failures = append(failures, err)
		}
		return nil
	})
	return ended, errors.Join(append(failures, err)...)
}

// sweepOne ends the daemon of one record and returns the daemon's pid if it ran.
func sweepOne(ctx context.Context, path string) (int, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil // another sweep has ended it
	}
	if err != nil {
		return 0, fmt.Errorf("mps: %w", err)
	}
	var r record
	if json.Unmarshal(data, &r) != nil || !ownPipe(r.Pipe) {
		return 0, nil // not ours, or truncated: it names no process that is safe to end
	}
	if r.Parent.Alive() || r.Parent.Elsewhere() {
		return 0, nil
	}
	logs := filepath.Dir(path)
	d := &daemon{control: newControl(r.Program, r.Pipe, logs, r.Device, normalPace), device: r.Device, pipe: r.Pipe, logs: logs, path: path, id: r.Daemon}
	if all := serving(r.Pipe); r.Daemon.PID == 0 && len(all) > 0 {
		d.id = all[0] // the coordinator died before it recorded the daemon
	}
	ran := d.id.Alive()
	if err := d.stop(ctx); err != nil || !ran {
		return 0, err
	}
	return d.id.PID, nil
}

// ownPipe reports whether a path has the form of a pipe directory of makePipe. Sweep removes such directories.
func ownPipe(path string) bool {
	return filepath.IsAbs(path) && filepath.Clean(path) == path && strings.HasPrefix(filepath.Base(path), "swarm-mps-")
}

func removeFile(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("mps: %w", err)
	}
	return nil
}
