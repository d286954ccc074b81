package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
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
		Short: "Keep a swarm up going over reboots and crashes, as a systemd service",
		Long: "service makes swarm up a service of systemd: of this user, or of the machine as root and with --system. It starts at boot and again\n" +
			"after a crash, and goes on with the run it finds. A run that is done stays done.",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, args []string) error { return cmd.Help() },
	}
	cmd.PersistentFlags().BoolVar(&o.system, "system", false, "a service of the machine (the default for root)")
	cmd.PersistentFlags().BoolVar(&o.user, "user", false, "a service of this user (the default for anybody else)")
	cmd.AddCommand(newServiceInstallCommand(g, &o), newServiceRemoveCommand(g, &o), newServiceShowCommand(g, &o))
	return cmd
}

func newServiceInstallCommand(g *globals, o *serviceOptions) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "install [NAME] -- ARGUMENTS OF swarm up",
		Short: "Write the unit, check it and start it",
		Long: "install writes swarm-NAME.service (swarm.service without a name), which runs swarm up with the arguments after --, in this folder,\n" +
			"with this program, home and Python. The arguments are checked first, the unit by systemd-analyze verify. The unit keeps PATH,\n" +
			"SWARM_… and what else decides which Python, GPU and models are used; no secrets.",
		Example: `  swarm service install -- --config 4loc4ext --nodes auto
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
		Short: "Stop the service in order and delete its unit; runs stay",
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
		Short: "Print the unit and what systemd does with it",
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
		return "swarm.service", nil
	case len(args) > 1:
		return "", &usageError{
			fmt.Errorf("service takes one name, not %d", len(args)), "swarm service install NAME -- --config 4loc4ext, with -- before what is for swarm up",
		}
	case !unitNames.MatchString(args[0]):
		return "", &usageError{fmt.Errorf("bad name %q of a service: allowed: letters, digits, _ . -, at most 64", args[0]), "another name"}
	}
	return "swarm-" + strings.TrimSuffix(args[0], ".service") + ".service", nil
}

// manager is the systemd that the flags mean.
func (o *serviceOptions) manager() (systemd, error) {
	if o.system && o.user {
		return systemd{}, &usageError{errors.New("--system and --user at once"), "one of them"}
	}
	return findSystemd(o.system || !o.user && os.Geteuid() == 0)
}

func installService(ctx context.Context, g *globals, name string, up []string, o *serviceOptions) error {
	s, err := o.manager()
	if err != nil {
		return err
	}
	u, left, err := newUnit(ctx, g, s, name, up)
	if err != nil {
		return err
	}
	text, err := u.text()
	if err != nil {
		return &usageError{err, "other arguments, or a folder with a plain name"}
	}
	if err := s.verify(ctx, u, text); err != nil {
		return err
	}
	if o.dryRun {
		_, err := fmt.Fprint(g.stdout, text)
		return err
	}
	replaced, err := ownUnit(s.path(name))
	if err != nil {
		return err
	}
	if err := writeUnit(s, name, text); err != nil {
		return err
	}
	fmt.Fprintf(g.stdout, "Wrote %s.\n", s.path(name))
	if left != nil {
		fmt.Fprintf(g.stdout, "Left out of its environment, since others can read it: %s.\n", strings.Join(left, ", "))
	}
	if err := s.enable(ctx, g, name, replaced, o.noStart); err != nil {
		return err
	}
	if !s.system && !lingers() {
		fmt.Fprintf(g.stdout, "It ends when you log out and does not start at boot until you type: loginctl enable-linger\n")
	}
	return nil
}

// writeUnit puts the file in its place, whole or not at all.
func writeUnit(s systemd, name, text string) error {
	fail := func(err error) error {
		if errors.Is(err, fs.ErrPermission) && s.system {
			return &hintError{fmt.Errorf("write the unit: %w", err), "sudo, or --user for a service of your own"}
		}
		return fmt.Errorf("write the unit: %w", err)
	}
	if err := os.MkdirAll(s.dir, 0o755); err != nil {
		return fail(err)
	}
	temporary := s.path("." + name + ".tmp")
	if err := os.WriteFile(temporary, []byte(text), 0o644); err != nil {
		return fail(err)
	}
	if err := os.Rename(temporary, s.path(name)); err != nil {
		os.Remove(temporary)
		return fail(err)
	}
	return nil
}

// enable has systemd read the unit and start it, or says what to type where no systemd runs.
func (s systemd) enable(ctx context.Context, g *globals, name string, replaced, noStart bool) error {
	steps := [][]string{{"daemon-reload"}, {"enable", name}}
	if !noStart {
		// A replaced one that runs is stopped in order, and goes on with the new arguments.
		steps = append(steps, []string{map[bool]string{true: "restart", false: "start"}[replaced], name})
	}
	return s.steps(ctx, g, steps)
}

func (s systemd) steps(ctx context.Context, g *globals, steps [][]string) error {
	if !s.runs {
		fmt.Fprintln(g.stdout, "systemd does not run here, or can't be reached. Where it does, type:")
	}
	for _, step := range steps {
		if !s.runs {
			fmt.Fprintf(g.stdout, "  %s\n", strings.Join(s.words(step...), " "))
			continue
		}
		if _, err := s.call(ctx, step...); err != nil {
			return err
		}
	}
	return nil
}

func removeService(ctx context.Context, g *globals, name string, o *serviceOptions) error {
	s, err := o.manager()
	if err != nil {
		return err
	}
	there, err := ownUnit(s.path(name))
	if err != nil {
		return err
	}
	if !there {
		return s.unknown(name)
	}
	if err := s.steps(ctx, g, [][]string{{"disable", "--now", name}}); err != nil {
		return err
	}
	if err := os.Remove(s.path(name)); err != nil {
		return fmt.Errorf("remove the unit: %w", err)
	}
	fmt.Fprintf(g.stdout, "Removed %s.\n", s.path(name))
	if !s.runs {
		return nil
	}
	_, err = s.call(ctx, "daemon-reload")
	return err
}

// unknown is the error for a unit that isn't there.
func (s systemd) unknown(name string) error {
	var names []string
	paths, _ := filepath.Glob(filepath.Join(s.dir, "swarm*.service")) // the pattern is a good one
	for _, path := range paths {
		if there, err := ownUnit(path); there && err == nil {
			names = append(names, filepath.Base(path))
		}
	}
	try := "swarm service install -- --config 4loc4ext"
	if names != nil {
		try = "one of " + strings.Join(names, ", ")
	}
	return &usageError{fmt.Errorf("there is no %s in %s", name, s.dir), try}
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
	s, err := o.manager()
	if err != nil {
		return err
	}
	text, err := os.ReadFile(s.path(name))
	if errors.Is(err, fs.ErrNotExist) {
		return s.unknown(name)
	}
	if err != nil {
		return fmt.Errorf("read the unit: %w", err)
	}
	state, err := s.state(ctx, name)
	if err != nil {
		return err
	}
	d := serviceDocument{
		Name: name, Scope: map[bool]string{true: "system", false: "user"}[s.system], Path: s.path(name), Unit: string(text), Manager: s.runs,
		Active: state["ActiveState"], Sub: state["SubState"], Enabled: state["UnitFileState"], Result: state["Result"],
	}
	d.PID, _ = strconv.Atoi(state["MainPID"])
	d.Restarts, _ = strconv.Atoi(state["NRestarts"])
	if o.output == "json" {
		return writeJSON(g.stdout, d)
	}
	fmt.Fprintf(g.stdout, "# %s\n%s", d.Path, d.Unit)
	if !d.Manager {
		_, err = fmt.Fprintf(g.stdout, "\nsystemd does not run here, or can't be reached.\n")
		return err
	}
	_, err = fmt.Fprintf(g.stdout, "\n%s (%s), %s, result %s, process %d, %d restarts\n", d.Active, d.Sub, d.Enabled, d.Result, d.PID, d.Restarts)
	return err
}
