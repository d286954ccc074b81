// Package layout names the folders and files under --home. Users' scripts depend on these names (docs/ARCHITECTURE.md,
// "Files").
package layout

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/files"
)

// Home is the absolute path of the folder that --home names.
type Home string

// Default returns SWARM_HOME, else swarm's folder under XDG_DATA_HOME, else ~/.local/share/swarm.
func Default(getenv func(string) string) string {
	if home := getenv("SWARM_HOME"); home != "" {
		return home
	}
	if data := getenv("XDG_DATA_HOME"); data != "" {
		return filepath.Join(data, "swarm")
	}
	return filepath.Join(getenv("HOME"), ".local", "share", "swarm")
}

// Path returns the path of a file or folder in the home.
func (d Home) Path(elements ...string) string {
	return filepath.Join(append([]string{string(d)}, elements...)...)
}

// Database returns the path of the SQLite file.
func (d Home) Database() string { return d.Path("swarm.db") }

// Make creates the home if it is missing, accessible to its owner only. It leaves an existing home alone.
func (d Home) Make() error {
	if err := files.MakeFolder(string(d), 0o700); err != nil {
		return d.Error(err)
	}
	return nil
}

// DashboardToken returns the path of the file with the dashboards' token. Only the owner can read the file.
func (d Home) DashboardToken() string { return d.Path("dashboard.token") }

// Runs returns the folder that holds one folder per run.
func (d Home) Runs() string { return d.Path("runs") }

// Run returns a run's folder.
func (d Home) Run(run string) string { return d.Path("runs", run) }

// LacksRun reports whether a run has no folder here, as after rm --files. Such a run cannot continue.
func (d Home) LacksRun(run string) bool {
	_, err := os.Stat(d.Run(run))
	return errors.Is(err, fs.ErrNotExist)
}

// RunError adds a remedy to an error about a run's folder.
func (d Home) RunError(run string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fail.Hint(fmt.Errorf("the files of run %s were removed: %s is missing", run, d.Run(run)), "swarm up --fresh for a new run")
	}
	return fail.Hint(fmt.Errorf("the folder of run %s: %w", run, err), "--home with the home of the run")
}

// Workers returns the folder with the admitted workers. Only the owner can read it.
func (d Home) Workers() string { return d.Path("workers") }

// Jobs returns the folder that holds one folder per job of swarm run.
func (d Home) Jobs() string { return d.Path("jobs") }

// Queue returns the folder in which jobs and runs of this host claim GPUs.
func (d Home) Queue() string { return d.Path("jobs", "queue") }

// Error adds a remedy to an error about a home that cannot be written.
func (d Home) Error(err error) error {
	try := "another --home, or fix the folder's permissions"
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		try = "free some space, or put --home on another disk"
	case errors.Is(err, syscall.EROFS):
		try = "--home on a writable disk"
	}
	return fail.Hint(fmt.Errorf("cannot write under %s: %w", d, err), try)
}
