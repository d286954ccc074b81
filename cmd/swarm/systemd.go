package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"time"
)

// systemd is the service manager of this machine, or of one of its users.
type systemd struct {
	system bool
	dir    string // of units
	runs   bool   // there is one to talk to
}

// systemctlLimit bounds a call; stopping a service takes up to its TimeoutStopSec.
const systemctlLimit = time.Minute

// findSystemd looks for the service manager. Where systemd isn't even installed the error says what to do instead.
func findSystemd(system bool) (systemd, error) {
	if _, err := exec.LookPath("systemctl"); err != nil {
		return systemd{}, &hintError{
			errors.New("systemd is not on this machine (a container has none)"),
			"swarm up --detach, or swarm service install on the host",
		}
	}
	s := systemd{system: system, dir: "/etc/systemd/system"}
	socket := "/run/systemd/system" // sd_booted(3)
	if !system {
		config, err := os.UserConfigDir()
		if err != nil {
			return s, fmt.Errorf("find the folder of user units: %w", err)
		}
		s.dir = filepath.Join(config, "systemd", "user")
		socket = filepath.Join(os.Getenv("XDG_RUNTIME_DIR"), "systemd", "private")
	}
	_, err := os.Stat(socket)
	s.runs = err == nil
	return s, nil
}

func (s systemd) path(name string) string { return filepath.Join(s.dir, name) }

// words are a systemctl command.
func (s systemd) words(args ...string) []string {
	if s.system {
		return append([]string{"systemctl"}, args...)
	}
	return append([]string{"systemctl", "--user"}, args...)
}

// call runs systemctl and returns its output.
func (s systemd) call(ctx context.Context, args ...string) (string, error) {
	return runTool(ctx, s.words(args...))
}

// runTool runs a program of systemd's, with more in its environment; its error holds what it said.
func runTool(ctx context.Context, words []string, environment ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, systemctlLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, words[0], words[1:]...)
	cmd.WaitDelay = time.Second
	cmd.Env = append(os.Environ(), environment...)
	out, err := cmd.CombinedOutput()
	text := strings.TrimSpace(string(out))
	if err != nil {
		return text, fmt.Errorf("%s: %w: %s", strings.Join(words, " "), err, text)
	}
	return text, nil
}

// verify has systemd-analyze, where there is one, look at a unit before it is installed.
func (s systemd) verify(ctx context.Context, u unit, text string) error {
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		return nil
	}
	dir, err := os.MkdirTemp("", "swarm-unit-")
	if err != nil {
		return fmt.Errorf("check the unit: %w", err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, u.name)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		return fmt.Errorf("check the unit: %w", err)
	}
	words, environment := []string{"systemd-analyze", "verify", "--man=no"}, []string{}
	if !s.system {
		words, environment = append(words, "--user"), append(environment, "XDG_RUNTIME_DIR="+dir) // it wants one, and only to look at
	}
	if out, err := runTool(ctx, append(words, path), environment...); err != nil {
		return fmt.Errorf("systemd refuses the unit: %s", oneLine(strings.ReplaceAll(out, path, u.name)))
	}
	return nil
}

// lingers tells whether a user's services run while the user is logged out.
func lingers() bool {
	u, err := user.Current()
	if err != nil {
		return false
	}
	_, err = os.Stat(filepath.Join("/var/lib/systemd/linger", u.Username))
	return err == nil
}

// state is what systemd knows of a unit, by the names of systemctl show; nil where no manager runs.
func (s systemd) state(ctx context.Context, name string) (map[string]string, error) {
	if !s.runs {
		return nil, nil
	}
	out, err := s.call(ctx, "show", name, "--property=ActiveState,SubState,UnitFileState,Result,MainPID,NRestarts")
	if err != nil {
		return nil, err
	}
	state := map[string]string{}
	for line := range strings.Lines(out) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok {
			state[key] = value
		}
	}
	return state, nil
}
