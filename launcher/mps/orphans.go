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

// recordName is the file in a run's folder that says which daemon serves it.
const recordName = "mps.json"

// record is the content of a recordName file.
type record struct {
	Daemon  supervise.Identity `json:"daemon"` // zero until it answered
	Parent  supervise.Identity `json:"parent"` // the coordinator that owns it
	Program string             `json:"program"`
	Pipe    string             `json:"pipe"`
	Device  string             `json:"device"`
}

// record writes who serves the pipe directory, whole or not at all.
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

// Sweep ends the daemons that coordinators which are no longer alive left running, by the records in and below dir, and
// removes those and the pipe directories. A daemon outlives its coordinator by design (it is in a session of its own),
// so that this is the rule after a kill, not the exception. Daemons of a living coordinator are left alone, and
// processes are named by pid, start time and boot. Call it after supervise.SweepOrphans, which ends their clients. It
// returns the pids of the daemons that ran.
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

// sweepOne ends the daemon of one record and returns its pid if it ran.
func sweepOne(ctx context.Context, path string) (int, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return 0, fmt.Errorf("mps: %w", err)
	}
	var r record
	if json.Unmarshal(data, &r) != nil || !ownPipe(r.Pipe) {
		return 0, nil // not ours, or cut short: it names nothing that could be ended safely
	}
	if r.Parent.Alive() || r.Parent.Elsewhere() {
		return 0, nil
	}
	logs := filepath.Dir(path)
	d := &daemon{control: newControl(r.Program, r.Pipe, logs, r.Device, normalPace), device: r.Device, pipe: r.Pipe, logs: logs, path: path, id: r.Daemon}
	if all := serving(r.Pipe); r.Daemon.PID == 0 && len(all) > 0 {
		d.id = all[0] // the coordinator died before it could record it
	}
	ran := d.id.Alive()
	if err := d.stop(ctx); err != nil || !ran {
		return 0, err
	}
	return d.id.PID, nil
}

// ownPipe tells whether a path can be a pipe directory that makePipe made: Sweep removes it.
func ownPipe(path string) bool {
	return filepath.IsAbs(path) && filepath.Clean(path) == path && strings.HasPrefix(filepath.Base(path), "swarm-mps-")
}

func removeFile(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("mps: %w", err)
	}
	return nil
}
