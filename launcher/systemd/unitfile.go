package systemd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/sapo-swarm/swarm/internal/files"
)

// mark is the first line of every unit that swarm writes. swarm replaces or removes only files with this line.
const mark = "# Written by swarm service install; swarm service remove takes it away."

// Verify checks a unit's text with systemd-analyze before the installation, if systemd-analyze is installed.
func (m Manager) Verify(ctx context.Context, name, text string) error {
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		return nil
	}
	dir, err := os.MkdirTemp("", "swarm-unit-")
	if err != nil {
		return fmt.Errorf("check the unit: %w", err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		return fmt.Errorf("check the unit: %w", err)
	}
	words, environment := []string{"systemd-analyze", "verify", "--man=no"}, []string{}
	if !m.System {
		// systemd-analyze requires the variable but only checks that the folder exists
		words, environment = append(words, "--user"), append(environment, "XDG_RUNTIME_DIR="+dir)
	}
	if out, err := runTool(ctx, append(words, path), environment...); err != nil {
		return fmt.Errorf("systemd rejects the unit: %s", strings.ReplaceAll(out, path, name))
	}
	return nil
}

// Write writes a unit file atomically. The manager reads it at the next reload.
func (m Manager) Write(name, text string) error {
	fail := func(err error) error {
		if errors.Is(err, fs.ErrPermission) && m.System {
			return fmt.Errorf("write the unit: %w. Try: sudo, or --user for a service of your user", err)
		}
		return fmt.Errorf("write the unit: %w", err)
	}
	if err := os.MkdirAll(m.Dir, 0o755); err != nil {
		return fail(err)
	}
	if err := files.Write(m.Path(name), []byte(text)); err != nil {
		return fail(err)
	}
	return nil
}

// Has reports whether swarm wrote a unit with that name. It returns an error for a unit that swarm did not write.
func (m Manager) Has(name string) (bool, error) {
	data, err := os.ReadFile(m.Path(name))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if !strings.HasPrefix(string(data), mark) {
		return true, fmt.Errorf("%s was not written by swarm. Try: another NAME", m.Path(name))
	}
	return true, nil
}

// Units returns the names of all units that swarm wrote here.
func (m Manager) Units() []string {
	var names []string
	paths, _ := filepath.Glob(filepath.Join(m.Dir, "swarm*.service")) // the pattern is valid
	for _, path := range paths {
		if there, err := m.Has(filepath.Base(path)); there && err == nil {
			names = append(names, filepath.Base(path))
		}
	}
	return names
}
