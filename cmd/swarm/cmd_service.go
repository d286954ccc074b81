package main

import (
	"context"

	"github.com/spf13/cobra"

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
		Long: "service makes `swarm up` a systemd service, of this user, or of the machine as root with --system.\n" +
			"It starts at boot, and again 3 minutes after a crash or a failure that may pass (exit 1 and 3). It\n" +
			"continues the run it finds. A run that is done stays done. It does not continue a run that the alarm\n" +
			"stopped (--on-alarm stop), nor one that failed three times without a new round because all nodes gave\n" +
			"up. swarm resume continues these.",
		Args: usage.OnlySubcommands,
		RunE: func(cmd *cobra.Command, args []string) error { return cmd.Help() },
	}
	cmd.PersistentFlags().BoolVar(&o.system, "system", false, "make a service of the machine (default for root)")
	cmd.PersistentFlags().BoolVar(&o.user, "user", false, "make a service of this user (default for other users)")
	cmd.AddCommand(newServiceInstallCommand(g, &o), newServiceRemoveCommand(g, &o), newServiceShowCommand(g, &o))
	return cmd
}

func newServiceInstallCommand(g *globals, o *serviceOptions) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "install [NAME] -- ARGUMENTS OF swarm up, or join ITS ARGUMENTS",
		Short: "Write the unit, check it and start it",
		Long: "install writes swarm-NAME.service (swarm.service without a name), which runs `swarm up` with the\n" +
			"arguments after --, in this folder, with this program, home and Python. After -- join it runs `swarm\n" +
			"join`. It checks the arguments first, and the unit with systemd-analyze verify. The unit keeps PATH,\n" +
			"SWARM_… and the other variables that decide about Python, GPU and models, and no secrets. The values\n" +
			"of --webhook and --on-complete go into files of mode 0600 under --home, which the unit names.",
		Example: `  swarm service install -- --config 4loc4ext --nodes auto
  swarm service install friends -- join --url-file invitation.txt
  sudo swarm service install nightly --system -- --config /data/mine.yaml --seed 7`,
		RunE: func(cmd *cobra.Command, args []string) error {
			names, up := args, []string(nil)
			if at := cmd.ArgsLenAtDash(); at >= 0 {
				names, up = args[:at], args[at:]
			}
			name, err := systemd.NamedUnit(names)
			if err != nil {
				return err
			}
			return installService(cmd.Context(), g, name, up, o)
		},
	}
	cmd.Flags().BoolVar(&o.noStart, "no-start", false, "start at the next boot, not now")
	cmd.Flags().BoolVar(&o.dryRun, "dry-run", false, "print the unit, write no files")
	return cmd
}

func newServiceRemoveCommand(g *globals, o *serviceOptions) *cobra.Command {
	return &cobra.Command{
		Use:   "remove [NAME]",
		Short: "Stop the service after a checkpoint and delete its unit",
		RunE: func(cmd *cobra.Command, args []string) error {
			name, err := systemd.NamedUnit(args)
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
			name, err := systemd.NamedUnit(args)
			if err != nil {
				return err
			}
			return showService(cmd.Context(), g, name, o)
		},
	}
	addOutputFlag(cmd.Flags(), &o.output)
	return cmd
}

func installService(ctx context.Context, g *globals, name string, up []string, o *serviceOptions) error {
	m, err := systemd.Choose(o.system, o.user)
	if err != nil {
		return err
	}
	u, left, err := newUnit(ctx, g, m.System, name, up)
	if err != nil {
		return err
	}
	return m.Install(ctx, g.stdout, u, left, o.dryRun, o.noStart)
}

func removeService(ctx context.Context, g *globals, name string, o *serviceOptions) error {
	m, err := systemd.Choose(o.system, o.user)
	if err != nil {
		return err
	}
	return m.Uninstall(ctx, g.stdout, g.home, name)
}

func showService(ctx context.Context, g *globals, name string, o *serviceOptions) error {
	if err := checkOutput(o.output); err != nil {
		return err
	}
	m, err := systemd.Choose(o.system, o.user)
	if err != nil {
		return err
	}
	service, err := m.Show(ctx, name)
	if err != nil {
		return err
	}
	if o.output == "json" {
		return writeJSON(g.stdout, service)
	}
	return service.Write(g.stdout)
}
