package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/internal/usage"
	"github.com/sapo-swarm/swarm/launcher/systemd"
)

type serviceOptions struct {
	system  bool
	user    bool
	noStart bool
	dryRun  bool
	output  string
}

func newServiceCommand(g *globals) *cobra.Command {
	var o serviceOptions
	cmd := &cobra.Command{
		Use:   "service",
		Short: "Keep a run going over reboots and crashes, as a systemd service",
		Long: "service makes swarm up a service of systemd: of this user, or of the machine as root and with --system. It starts at boot and again\n" +
			"after a crash, and goes on with the run it finds. A run that is done stays done.",
		Args: usage.OnlySubcommands,
		RunE: func(cmd *cobra.Command, args []string) error { return cmd.Help() },
	}
	cmd.PersistentFlags().BoolVar(&o.system, "system", false, "a service of the machine (the default for root)")
	cmd.PersistentFlags().BoolVar(&o.user, "user", false, "a service of this user (the default for anybody else)")
	cmd.AddCommand(newServiceInstallCommand(g, &o), newServiceRemoveCommand(g, &o), newServiceShowCommand(g, &o))
	return cmd
}

func newServiceInstallCommand(g *globals, o *serviceOptions) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "install [NAME] -- ARGUMENTS OF swarm up, or join ITS ARGUMENTS",
		Short: "Write the unit, check it and start it",
		Long: "install writes swarm-NAME.service (swarm.service without a name), which runs swarm up with the arguments after --, in this folder,\n" +
			"with this program, home and Python; after -- join it runs swarm join. The arguments are checked first, the unit by systemd-analyze verify. The unit keeps PATH,\n" +
			"SWARM_… and what else decides which Python, GPU and models are used; no secrets.",
		Example: `  swarm service install -- --config 4loc4ext --nodes auto
  swarm service install friends -- join --url-file invitation.txt
  sudo swarm service install nightly --system -- --config /data/mine.yaml --seed 7`,
		RunE: func(cmd *cobra.Command, args []string) error {
			names, up := args, []string(nil)
			if at := cmd.ArgsLenAtDash(); at >= 0 {
				names, up = args[:at], args[at:]
			}
			name, err := unitName(names)
			if err != nil {
				return err
			}
			return installService(cmd.Context(), g, name, up, o)
		},
	}
	cmd.Flags().BoolVar(&o.noStart, "no-start", false, "don't start it now, only at the next boot")
	cmd.Flags().BoolVar(&o.dryRun, "dry-run", false, "print the unit, write nothing")
	return cmd
}

func newServiceRemoveCommand(g *globals, o *serviceOptions) *cobra.Command {
	return &cobra.Command{
		Use:   "remove [NAME]",
		Short: "Stop the service after a checkpoint and delete its unit",
		RunE: func(cmd *cobra.Command, args []string) error {
			name, err := unitName(args)
			if err != nil {
				return err
			}
			return removeService(cmd.Context(), g, name, o)
		},
	}
}

func newServiceShowCommand(g *globals, o *serviceOptions) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "show [NAME]",
		Short: "Print the unit and its state in systemd",
		RunE: func(cmd *cobra.Command, args []string) error {
			name, err := unitName(args)
			if err != nil {
				return err
			}
			return showService(cmd.Context(), g, name, o)
		},
	}
	addOutputFlag(cmd.Flags(), &o.output)
	return cmd
}

// unitName is the unit's name for the NAME that was given, or not.
func unitName(args []string) (string, error) {
	switch {
	case len(args) == 0:
		return systemd.DefaultName, nil
	case len(args) > 1:
		return "", fail.Usage(
			fmt.Errorf("service takes one name, not %d", len(args)), "swarm service install NAME -- --config 4loc4ext, with -- before what is for swarm up")

	}
	name, ok := systemd.UnitName(args[0])
	if !ok {
		return "", fail.Usage(fmt.Errorf("bad name %q of a service: allowed: letters, digits, _ . -, at most 64", args[0]), "another name")
	}
	return name, nil
}

// manager is the systemd that the flags mean.
func (o *serviceOptions) manager() (systemd.Manager, error) {
	if o.system && o.user {
		return systemd.Manager{}, fail.Usage(errors.New("--system and --user at once"), "one of them")
	}
	return systemd.Find(o.system || !o.user && os.Geteuid() == 0)
}

func installService(ctx context.Context, g *globals, name string, up []string, o *serviceOptions) error {
	m, err := o.manager()
	if err != nil {
		return err
	}
	u, left, err := newUnit(ctx, g, m.System, name, up)
	if err != nil {
		return err
	}
	text, err := u.Text()
	if err != nil {
		return fail.Usage(err, "other arguments, or a folder with a plain name")
	}
	if err := m.Verify(ctx, name, text); err != nil {
		return err
	}
	if o.dryRun {
		_, err := fmt.Fprint(g.stdout, text)
		return err
	}
	replaced, err := m.Has(name)
	if err != nil {
		return err
	}
	if err := m.Write(name, text); err != nil {
		return err
	}
	fmt.Fprintf(g.stdout, "Wrote %s.\n", m.Path(name))
	if left != nil {
		fmt.Fprintf(g.stdout, "Left out of its environment, since others can read it: %s.\n", strings.Join(left, ", "))
	}
	if err := enable(ctx, g, m, name, replaced, o.noStart); err != nil {
		return err
	}
	if !m.System && !systemd.Lingers() {
		fmt.Fprintf(g.stdout, "It ends when you log out and does not start at boot until you type: loginctl enable-linger\n")
	}
	return nil
}

// enable has systemd read the unit and start it, or says what to type where no systemd runs.
func enable(ctx context.Context, g *globals, m systemd.Manager, name string, replaced, noStart bool) error {
	steps := [][]string{{"daemon-reload"}, {"enable", name}}
	if !noStart {
		// A replaced one that runs is stopped in order, and goes on with the new arguments.
		steps = append(steps, []string{map[bool]string{true: "restart", false: "start"}[replaced], name})
	}
	return carryOut(ctx, g, m, steps)
}

// carryOut calls systemctl for each step, or prints what to type.
func carryOut(ctx context.Context, g *globals, m systemd.Manager, steps [][]string) error {
	if !m.Runs {
		fmt.Fprintln(g.stdout, "systemd does not run here, or can't be reached. Where it does, type:")
	}
	for _, step := range steps {
		if !m.Runs {
			fmt.Fprintf(g.stdout, "  %s\n", strings.Join(m.Command(step...), " "))
			continue
		}
		if _, err := m.Call(ctx, step...); err != nil {
			return err
		}
	}
	return nil
}

func removeService(ctx context.Context, g *globals, name string, o *serviceOptions) error {
	m, err := o.manager()
	if err != nil {
		return err
	}
	there, err := m.Has(name)
	if err != nil {
		return err
	}
	if !there {
		return unknownUnit(m, name)
	}
	if err := carryOut(ctx, g, m, [][]string{{"disable", "--now", name}}); err != nil {
		return err
	}
	if err := os.Remove(m.Path(name)); err != nil {
		return fmt.Errorf("remove the unit: %w", err)
	}
	fmt.Fprintf(g.stdout, "Removed %s.\n", m.Path(name))
	if !m.Runs {
		return nil
	}
	_, err = m.Call(ctx, "daemon-reload")
	return err
}

// unknownUnit is the error for a unit that isn't there.
func unknownUnit(m systemd.Manager, name string) error {
	try := "swarm service install -- --config 4loc4ext"
	if names := m.Units(); names != nil {
		try = "one of " + strings.Join(names, ", ")
	}
	return fail.Usage(fmt.Errorf("there is no %s in %s", name, m.Dir), try)
}

// serviceDocument is what swarm service show -o json prints.
type serviceDocument struct {
	Name     string `json:"name"`
	Scope    string `json:"scope"` // user or system
	Path     string `json:"path"`
	Unit     string `json:"unit"`    // the file's text
	Manager  bool   `json:"manager"` // systemd can be asked: what follows is known
	Active   string `json:"active"`  // active, inactive, failed, activating …
	Sub      string `json:"sub"`     // running, dead, auto-restart …
	Enabled  string `json:"enabled"` // enabled: it starts at boot
	Result   string `json:"result"`  // success, exit-code, signal, start-limit-hit …
	PID      int    `json:"pid"`
	Restarts int    `json:"restarts"`
}

func showService(ctx context.Context, g *globals, name string, o *serviceOptions) error {
	if err := checkOutput(o.output); err != nil {
		return err
	}
	m, err := o.manager()
	if err != nil {
		return err
	}
	text, err := os.ReadFile(m.Path(name))
	if errors.Is(err, fs.ErrNotExist) {
		return unknownUnit(m, name)
	}
	if err != nil {
		return fmt.Errorf("read the unit: %w", err)
	}
	state, err := m.State(ctx, name)
	if err != nil {
		return err
	}
	d := serviceDocument{
		Name: name, Scope: map[bool]string{true: "system", false: "user"}[m.System], Path: m.Path(name), Unit: string(text), Manager: m.Runs,
		Active: state.Active, Sub: state.Sub, Enabled: state.Enabled, Result: state.Result, PID: state.PID, Restarts: state.Restarts,
	}
	if o.output == "json" {
		return writeJSON(g.stdout, d)
	}
	fmt.Fprintf(g.stdout, "# %s\n%s", d.Path, d.Unit)
	if !d.Manager {
		_, err = fmt.Fprintf(g.stdout, "\nsystemd does not run here, or can't be reached.\n")
		return err
	}
	_, err = fmt.Fprintf(g.stdout, "\n%s (%s), %s, result %s, process %d, %s\n", d.Active, d.Sub, d.Enabled, d.Result, d.PID, units.Plural(d.Restarts, "restart"))
	return err
}
