package systemd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/layout"
	"github.com/sapo-swarm/swarm/internal/units"
)

// Choose returns the manager that the flags select. The default is the machine's manager for root and the user's
// manager otherwise.
func Choose(system, user bool) (Manager, error) {
	if system && user {
		return Manager{}, fail.Usage(errors.New("--system and --user at once"), "one of them")
	}
	return Find(system || !user && os.Geteuid() == 0)
}

// NamedUnit returns the name of the unit for the optional argument NAME.
func NamedUnit(args []string) (string, error) {
	switch {
	case len(args) == 0:
		return DefaultName, nil
	case len(args) > 1:
		return "", fail.Usage(
			fmt.Errorf("service takes one name, not %d", len(args)), "swarm service install NAME -- --config 4loc4ext, with -- before the arguments of swarm up")

	}
	name, ok := UnitName(args[0])
	if !ok {
		return "", fail.Usage(fmt.Errorf("bad service name %q: allowed: letters, digits, _ . -, at most 64", args[0]), "another name")
	}
	return name, nil
}

// Install checks a unit, writes it and has systemd start it. With noStart, the service starts only at the next
// boot. Install prints what it did and which variables the unit leaves out. dryRun prints the unit and writes
// nothing.
func (m Manager) Install(ctx context.Context, out io.Writer, u Unit, left []string, dryRun, noStart bool) error {
	text, err := u.Text()
	if err != nil {
		return fail.Usage(err, "other arguments, or a folder with a plain name")
	}
	if err := m.Verify(ctx, u.Name, text); err != nil {
		return err
	}
	if dryRun {
		_, err := fmt.Fprint(out, text)
		return err
	}
	replaced, err := m.Has(u.Name)
	if err != nil {
		return err
	}
	if err := u.Secrets.Write(); err != nil {
		return err
	}
	if err := m.Write(u.Name, text); err != nil {
		return err
	}
	fmt.Fprintf(out, "Wrote %s.\n", m.Path(u.Name))
	if left != nil {
		fmt.Fprintf(out, "Not in the unit's environment, because other users can read it: %s.\n", strings.Join(left, ", "))
	}
	if err := m.enable(ctx, out, u.Name, replaced, noStart); err != nil {
		return err
	}
	if !m.System && !Lingers() {
		fmt.Fprintf(out, "The service ends when you log out and does not start at boot. To change this: loginctl enable-linger\n")
	}
	return nil
}

// enable has systemd load and start the unit. If no systemd runs, it prints what to type.
func (m Manager) enable(ctx context.Context, out io.Writer, name string, replaced, noStart bool) error {
	steps := [][]string{{"daemon-reload"}, {"enable", name}}
	if !noStart {
		// restart stops a running service cleanly. It continues with the new arguments.
		steps = append(steps, []string{map[bool]string{true: "restart", false: "start"}[replaced], name})
	}
	return m.carryOut(ctx, out, steps)
}

// carryOut calls systemctl for each step, or prints what to type if no systemd runs.
func (m Manager) carryOut(ctx context.Context, out io.Writer, steps [][]string) error {
	if !m.Runs {
		fmt.Fprintln(out, "systemd is not running or not reachable here. Where it runs, type:")
	}
	for _, step := range steps {
		if !m.Runs {
			fmt.Fprintf(out, "  %s\n", strings.Join(m.Command(step...), " "))
			continue
		}
		if _, err := m.Call(ctx, step...); err != nil {
			return err
		}
	}
	return nil
}

// Uninstall stops a unit cleanly and deletes it.
func (m Manager) Uninstall(ctx context.Context, out io.Writer, home layout.Home, name string) error {
	there, err := m.Has(name)
	if err != nil {
		return err
	}
	if !there {
		return m.unknown(name)
	}
	if err := m.carryOut(ctx, out, [][]string{{"disable", "--now", name}}); err != nil {
		return err
	}
	if err := os.Remove(m.Path(name)); err != nil {
		return fmt.Errorf("remove the unit: %w", err)
	}
	if err := (Secrets{Home: home, Unit: name}).Remove(); err != nil {
		return err
	}
	fmt.Fprintf(out, "Removed %s.\n", m.Path(name))
	if !m.Runs {
		return nil
	}
	_, err = m.Call(ctx, "daemon-reload")
	return err
}

// unknown returns the error for a unit that does not exist.
func (m Manager) unknown(name string) error {
	try := "swarm service install -- --config 4loc4ext"
	if names := m.Units(); names != nil {
		try = "one of " + strings.Join(names, ", ")
	}
	return fail.Usage(fmt.Errorf("%s does not exist in %s", name, m.Dir), try)
}

// Service is the output of swarm service show -o json.
type Service struct {
	Name     string `json:"name"`
	Scope    string `json:"scope"` // user or system
	Path     string `json:"path"`
	Unit     string `json:"unit"`    // text of the file
	Manager  bool   `json:"manager"` // systemd answers: the following fields are valid
	Active   string `json:"active"`  // active, inactive, failed, activating …
	Sub      string `json:"sub"`     // running, dead, auto-restart …
	Enabled  string `json:"enabled"` // "enabled" means that it starts at boot
	Result   string `json:"result"`  // success, exit-code, signal, start-limit-hit …
	PID      int    `json:"pid"`
	Restarts int    `json:"restarts"`
}

// Show returns a unit and its state.
func (m Manager) Show(ctx context.Context, name string) (d Service, err error) {
	text, err := os.ReadFile(m.Path(name))
	if errors.Is(err, fs.ErrNotExist) {
		return d, m.unknown(name)
	}
	if err != nil {
		return d, fmt.Errorf("read the unit: %w", err)
	}
	state, err := m.State(ctx, name)
	if err != nil {
		return d, err
	}
	return Service{
		Name: name, Scope: map[bool]string{true: "system", false: "user"}[m.System], Path: m.Path(name), Unit: string(text), Manager: m.Runs,
		Active: state.Active, Sub: state.Sub, Enabled: state.Enabled, Result: state.Result, PID: state.PID, Restarts: state.Restarts,
	}, nil
}

// Write prints the service for people.
func (d Service) Write(out io.Writer) error {
	fmt.Fprintf(out, "# %s\n%s", d.Path, d.Unit)
	if !d.Manager {
		_, err := fmt.Fprintf(out, "\nsystemd is not running or not reachable here.\n")
		return err
	}
	_, err := fmt.Fprintf(out, "\n%s (%s), %s, result %s, process %d, %s\n", d.Active, d.Sub, d.Enabled, d.Result, d.PID, units.Plural(d.Restarts, "restart"))
	return err
}
