// Package systemd runs swarm up as a systemd service. It writes units with correct quoting, has systemd check them,
// and controls the manager with systemctl and systemd-analyze. It does not check the program's arguments.
package systemd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Manager is the service manager of this machine or of one of its users.
type Manager struct {
	System bool   // of the machine
	Dir    string // folder of the units
	Runs   bool   // the manager is running and can be reached
}

// systemctlLimit bounds a call. Stopping a service takes up to its TimeoutStopSec.
const systemctlLimit = time.Minute

// Find looks for the service manager. If systemd is not installed, the error names an alternative.
func Find(system bool) (Manager, error) {
	if _, err := exec.LookPath("systemctl"); err != nil {
		return Manager{}, errors.New("this machine has no systemd (containers have none). " +
			"Try: swarm up --detach, or swarm service install on the host")
	}
	m := Manager{System: system, Dir: "/etc/systemd/system"}
	socket := "/run/systemd/system" // sd_booted(3)
	if !system {
		config, err := os.UserConfigDir()
		if err != nil {
			return m, fmt.Errorf("find the folder of user units: %w", err)
		}
		m.Dir = filepath.Join(config, "systemd", "user")
		socket = filepath.Join(os.Getenv("XDG_RUNTIME_DIR"), "systemd", "private")
	}
	_, err := os.Stat(socket)
	m.Runs = err == nil
	return m, nil
}

// Path returns the path of the unit with that name, whether or not it exists.
func (m Manager) Path(name string) string { return filepath.Join(m.Dir, name) }

// Command returns a systemctl command for this manager, as a user would type it.
func (m Manager) Command(args ...string) []string {
	if m.System {
		return append([]string{"systemctl"}, args...)
	}
	return append([]string{"systemctl", "--user"}, args...)
}

// Call runs systemctl for at most a minute and returns its output. An error contains the output too.
func (m Manager) Call(ctx context.Context, args ...string) (string, error) {
	return runTool(ctx, m.Command(args...))
}

// runTool runs one of systemd's programs with additions to its environment. An error contains its output.
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

// Lingers reports whether the user's services run while the user is logged out.
func Lingers() bool {
	u, err := user.Current()
	if err != nil {
		return false
	}
	_, err = os.Stat(filepath.Join("/var/lib/systemd/linger", u.Username))
	return err == nil
}

// State is the state of a unit, in the words of systemctl show. It is zero if no manager runs.
type State struct {
	Active   string // active, inactive, failed, activating …
	Sub      string // running, dead, auto-restart …
	Enabled  string // "enabled" means that it starts at boot
	Result   string // success, exit-code, signal, start-limit-hit …
	PID      int    // 0: none
	Restarts int    // automatic restarts since the last manual start
}

// State returns the state of a unit.
func (m Manager) State(ctx context.Context, name string) (State, error) {
	if !m.Runs {
		return State{}, nil
	}
	out, err := m.Call(ctx, "show", name, "--property=ActiveState,SubState,UnitFileState,Result,MainPID,NRestarts")
	if err != nil {
		return State{}, err
	}
	return parseState(out), nil
}

func parseState(text string) State {
	known := map[string]string{}
	for line := range strings.Lines(text) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok {
			known[key] = value
		}
	}
	s := State{Active: known["ActiveState"], Sub: known["SubState"], Enabled: known["UnitFileState"], Result: known["Result"]}
	s.PID, _ = strconv.Atoi(known["MainPID"])
	s.Restarts, _ = strconv.Atoi(known["NRestarts"])
	return s
}
