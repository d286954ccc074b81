package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sapo-swarm/swarm/configs/resolve"
	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/usage"
	"github.com/sapo-swarm/swarm/launcher/plan"
	"github.com/sapo-swarm/swarm/launcher/targets"
	"github.com/sapo-swarm/swarm/launcher/workers"
	"github.com/sapo-swarm/swarm/node/exchange/membership"
)

// generateOptions are the flags of generate, for all targets.
type generateOptions struct {
	spec            targets.Spec
	url, urlFile    string
	memory, storage plan.Size
	out             string
	force           bool
}

func newGenerateCommand(g *globals) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "generate",
		Short: "Write Slurm, Kubernetes, SkyPilot or Compose files for workers",
		Long: "generate writes files that run `swarm join` on N workers, with the target's own settings for GPUs,\n" +
			"restarts and an orderly stop. The invitation is in a separate file that only you may read.\n" +
			"Arguments after -- are passed to `swarm join`. docs/WORKERS.md says how to install the program\n" +
			"there and what is kept when a worker moves to another machine.",
		Example: `  swarm generate slurm --workers 4 --partition gpu --gpu-type a100 -- --model gpt2 --yes
  swarm generate kubernetes --workers 8 --image registry.example.com/swarm:1
  swarm generate compose --workers 2 --url-file invitation.txt`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return fail.Usage(fmt.Errorf("unknown target %q", args[0]), "slurm, kubernetes, skypilot or compose")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return cmd.Help() },
		// Report an unknown target as such, whatever flags follow it.
		FParseErrWhitelist: cobra.FParseErrWhitelist{UnknownFlags: true},
	}
	cmd.AddCommand(
		newGenerateTarget(g, targets.Slurm, "Write a job array for sbatch", (*generateOptions).addSlurm),
		newGenerateTarget(g, targets.Kubernetes, "Write Jobs, their claims and a Secret for kubectl apply", (*generateOptions).addKubernetes),
		newGenerateTarget(g, targets.SkyPilot, "Write a managed job for sky jobs launch", (*generateOptions).addSkyPilot),
		newGenerateTarget(g, targets.Compose, "Write a file for docker compose up, on one host", (*generateOptions).addCompose),
	)
	return cmd
}

func newGenerateTarget(g *globals, target, short string, more func(*generateOptions, *pflag.FlagSet)) *cobra.Command {
	o := &generateOptions{spec: targets.Spec{Target: target}}
	cmd := &cobra.Command{
		Use:   target + " --workers N [-- ARGUMENTS OF swarm join]",
		Short: short,
		Args: func(cmd *cobra.Command, args []string) error {
			if at := cmd.ArgsLenAtDash(); len(args) > 0 && at != 0 {
				return fail.Usage(fmt.Errorf("unknown argument %q", args[0]), "-- before the arguments of swarm join")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			o.spec.Args = args
			if err := checkJoin(g, args); err != nil {
				return err
			}
			return runGenerate(g, o)
		},
	}
	f := cmd.Flags()
	f.IntVar(&o.spec.Workers, "workers", 0, "`number` of workers; each runs on a host of its own")
	f.StringVar(&o.spec.Name, "name", "swarm", "`NAME` of the workers: NAME-0, NAME-1 …")
	f.StringVar(&o.url, "url", "", "the `invitation` (default: the one that swarm up --listen last handed out in this home)")
	f.StringVar(&o.urlFile, "url-file", "", "`file` with the invitation ($"+resolve.InvitationVariable+")")
	f.StringVar(&o.spec.Nodes, "nodes", "auto", "`number` of nodes per worker; auto: as many as fit")
	f.IntVar(&o.spec.GPUs, "gpus-per-worker", 1, "`number` of GPUs per worker; 0: train on the CPU")
	f.StringVar(&o.spec.GPUType, "gpu-type", "", "`name` of the GPU type, as the target spells it")
	f.IntVar(&o.spec.CPUs, "cpus", 8, "`number` of CPU cores per worker")
	o.memory = plan.Size{Text: "32GiB", Given: true}
	f.Var(&o.memory, "memory", "`size` of host memory per worker")
	f.StringVar(&o.out, "out", "", "`folder` to write; -: print only the job file (default swarm-"+target+")")
	f.BoolVar(&o.force, "force", false, "replace existing files")
	more(o, f)
	return cmd
}

func (o *generateOptions) addSlurm(f *pflag.FlagSet) {
	f.StringVar(&o.spec.Time, "time", "24:00:00", "time `limit` of a job in sbatch's format; a worker that reaches it is queued again and continues")
	f.StringVar(&o.spec.Partition, "partition", "", "`name` of the partition")
	f.StringVar(&o.spec.Account, "account", "", "`name` of the account")
	f.StringVar(&o.spec.Scratch, "scratch", "", "`folder` on each machine's own disk (default $SLURM_TMPDIR, $TMPDIR or /tmp)")
	o.addProgram(f)
}

func (o *generateOptions) addKubernetes(f *pflag.FlagSet) {
	f.StringVar(&o.spec.Image, "image", "", "`image` with swarm, Python and PyTorch")
	f.StringVar(&o.spec.Namespace, "namespace", "default", "`name` of the namespace")
	o.storage = plan.Size{Text: "20GiB", Given: true}
	f.Var(&o.storage, "storage", "`size` of each worker's home")
	f.StringVar(&o.spec.StorageClass, "storage-class", "", "`name` of the storage class (default: the cluster's)")
	o.spec.Program = "/usr/local/bin/swarm" // in the image
}

func (o *generateOptions) addSkyPilot(f *pflag.FlagSet) {
	f.StringVar(&o.spec.Image, "image", "", "Docker `image` with Python and PyTorch (default: SkyPilot's machine image, PyTorch by pip)")
	f.StringVar(&o.spec.Infra, "infra", "", "`cloud`[/region[/zone]] (default: the cheapest)")
	f.BoolVar(&o.spec.Spot, "spot", false, "use cheaper machines that the provider can take back")
	o.addProgram(f)
}

func (o *generateOptions) addCompose(f *pflag.FlagSet) {
	f.StringVar(&o.spec.Image, "image", targets.DefaultImage, "`image` with Python and PyTorch")
	o.addProgram(f)
}

func (o *generateOptions) addProgram(f *pflag.FlagSet) {
	f.StringVar(&o.spec.Program, "program", "", "`path` of swarm on the target (default: this program's)")
}

// checkJoin finds mistakes in the arguments for swarm join. Otherwise they would appear only when the job runs.
func checkJoin(g *globals, args []string) error {
	join := newJoinCommand(g)
	if err := join.ParseFlags(args); err != nil {
		return fail.Usage(fmt.Errorf("swarm join: %w", usage.FlagError(join, err)), "swarm join --help")
	}
	if rest := join.Flags().Args(); len(rest) > 0 {
		return fail.Usage(fmt.Errorf("swarm join takes no argument %q here", rest[0]), "--url or --url-file for the invitation")
	}
	for _, name := range []string{"url-file", "name", "nodes", "device", "detach", "node-id"} {
		if join.Flags().Changed(name) {
			return fail.Usage(fmt.Errorf("--%s after -- conflicts with the generated files, which set it for each worker", name),
				"--url-file, --name, --nodes or --gpus-per-worker before the --")

		}
	}
	return nil
}

func runGenerate(g *globals, o *generateOptions) error {
	s := &o.spec
	var err error
	if s.Memory, err = o.memory.Bytes("memory"); err != nil {
		return err
	}
	if s.Storage, err = o.storage.Bytes("storage"); err != nil {
		return err
	}
	if s.Program == "" {
		if s.Program, err = os.Executable(); err != nil {
			return fmt.Errorf("own program: %w", err)
		}
	} else if s.Program, err = filepath.Abs(s.Program); err != nil {
		return fmt.Errorf("--program: %w", err)
	}
	out := o.out
	if out == "" || out == "-" {
		out = "swarm-" + s.Target
	}
	if s.Dir, err = filepath.Abs(out); err != nil {
		return fmt.Errorf("--out: %w", err)
	}
	if !throughFolder(s.Args) {
		if s.Invitation, err = o.invitation(g); err != nil {
			return err
		}
	}
	warnLoopback(g, s.Invitation, s.Target)
	files, err := s.Files()
	if err != nil {
		return err
	}
	if o.out == "-" {
		return s.Print(files, g.stdout, g.stderr)
	}
	return s.Write(files, o.force, g.stdout)
}

// warnLoopback warns if an invitation has only loopback addresses, which workers on other hosts can't reach. It is
// not an error because the port may be forwarded.
func warnLoopback(g *globals, text, target string) {
	invitation, err := membership.ParseInvitation(text)
	if err != nil || !invitation.Loopback() {
		return
	}
	who := "workers on other hosts can't reach it"
	if target == targets.Compose {
		who = "containers and workers on other hosts can't reach it"
	}
	fmt.Fprintf(g.stderr, "Warning: the invitation's address is %s: %s. Try: swarm up --listen :%s --advertise HOST on the coordinator, and its new invitation\n",
		invitation.Address(), who, workers.NATSPort)
}

// throughFolder tells whether join's arguments name a shared folder, which needs no invitation.
func throughFolder(args []string) bool { return names(args, "shared") }

// invitation returns the given invitation, else that of this home's coordinator.
func (o *generateOptions) invitation(g *globals) (string, error) {
	given := workers.JoinOptions{URL: o.url, URLFile: o.urlFile}
	read := given.Invitation
	if o.url == "" && o.urlFile == "" && os.Getenv(resolve.InvitationVariable) == "" {
		read = func() (membership.Invitation, error) { return workers.ReadInvitation(g.home) }
	}
	invitation, err := read()
	if err != nil {
		return "", err
	}
	if invitation.Token == "" {
		return "", fail.Usage(errors.New("the invitation has no token (after the #)"), "the whole line that swarm up printed, in quotes")
	}
	return invitation.String(), nil
}
