package supervise

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// PIDFileName is the file in a node's folder that says which process runs there.
const PIDFileName = "pid.json"

// pidFile is the content of a PIDFileName.
type pidFile struct {
	Process Identity `json:"process"`
	Parent  Identity `json:"parent"` // the launcher that owns it
}

// writePIDFile records a child of this process. An empty path records nothing.
func writePIDFile(path string, pid int) error {
	if path == "" {
		return nil
	}
	var record pidFile
	var err error
	if record.Process, err = Identify(pid); err != nil {
		return err
	}
	if record.Parent, err = Identify(os.Getpid()); err != nil {
		return err
	}
	data, err := json.Marshal(record)
	if err != nil {
		return fmt.Errorf("encode pid file: %w", err)
	}
	temporary := path + ".tmp"
	if err := os.WriteFile(temporary, append(data, '\n'), 0o644); err != nil {
		return fmt.Errorf("write pid file: %w", err)
	}
	if err := os.Rename(temporary, path); err != nil {
		return fmt.Errorf("write pid file: %w", err)
	}
	return nil
}

// Orphan is a process that a dead launcher left behind and SweepOrphans ended.
type Orphan struct {
	PID int
	Dir string // the node's folder
}

// SweepOrphans ends the processes that launchers which are no longer alive left running, by the pid files in and below dir, and removes
// those files. A node exits by itself when its launcher dies, so that this finds only the ones that hang. Processes are named by pid,
// start time and boot, never by pid alone; those of a living launcher are left alone. Each gets SIGTERM, after term SIGKILL.
// The error, with the orphans found so far, says which of them did not die or what could not be read.
func SweepOrphans(ctx context.Context, dir string, term time.Duration) ([]Orphan, error) {
	var orphans []Orphan
	var failures []error
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			return err
		}
		if entry.Name() != PIDFileName || !entry.Type().IsRegular() {
			return ctx.Err()
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return fmt.Errorf("sweep orphans: %w", err)
		}
		var record pidFile
		// A torn file names no process that could be killed safely.
		if json.Unmarshal(data, &record) == nil {
			if record.Parent.Alive() {
				return nil
			}
			if record.Process.Alive() {
				orphans = append(orphans, Orphan{PID: record.Process.PID, Dir: filepath.Dir(path)})
				if err := end(ctx, record.Process, term); err != nil {
					failures = append(failures, err)
					return nil
				}
			}
		}
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			failures = append(failures, fmt.Errorf("sweep orphans: %w", err))
		}
		return nil
	})
	return orphans, errors.Join(append(failures, err)...)
}

const sweepPoll = 10 * time.Millisecond

// end kills a process that is no child of ours and can't be waited for.
func end(ctx context.Context, id Identity, term time.Duration) error {
	steps := []struct {
		signal syscall.Signal
		limit  time.Duration
	}{{syscall.SIGTERM, term}, {syscall.SIGKILL, 5 * time.Second}}
	tick := time.NewTicker(sweepPoll)
	defer tick.Stop()
	for _, step := range steps {
		id.kill(step.signal)
		if step.signal == syscall.SIGTERM {
			id.kill(syscall.SIGCONT)
		}
		for limit := time.Now().Add(step.limit); time.Now().Before(limit); {
			if !id.Alive() {
				return nil
			}
			select {
			case <-ctx.Done():
				return fmt.Errorf("end orphan %d: %w", id.PID, context.Cause(ctx))
			case <-tick.C:
			}
		}
	}
	return fmt.Errorf("end orphan %d: %w", id.PID, ErrUnkillable)
}
