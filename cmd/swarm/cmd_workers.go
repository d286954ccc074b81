package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/internal/charset"
	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/screen"
	"github.com/sapo-swarm/swarm/internal/shell"
	"github.com/sapo-swarm/swarm/internal/table"
	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/internal/usage"
	"github.com/sapo-swarm/swarm/launcher/workers"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/node/exchange/membership"
)

func newWorkersCommand(g *globals) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "workers [RUN]",
		Short: "List workers, invite them, and decide who may join",
		Long: "workers lists the hosts that joined a run, by default the newest that this home coordinates: their\n" +
			"nodes, how useful their rollouts have been, and what was refused. invite prints an invitation.\n" +
			"revoke, ban and unban decide who may join. They take effect at once, also while a run is running.",
		Example: `  swarm workers
  swarm workers invite anna
  swarm workers ban mallory --reason "wrong answer keys"`,
		Args: usage.AtMostOneName,
		RunE: func(cmd *cobra.Command, args []string) error {
			return runWorkers(cmd.Context(), g, nameIn(args), output)
		},
	}
	addOutputFlag(cmd.Flags(), &output)
	var once bool
	var terms membership.Terms
	var out string
	invite := &cobra.Command{
		Use:   "invite [NAME]",
		Short: "Print an invitation, for one worker or for several",
		Long: "invite prints a command that lets others join. Without a name or a flag it is the invitation of\n" +
			"`swarm up`, renewed for 256 workers and 30 days. Otherwise it is a new invitation. The workers of one\n" +
			"invitation share one allowance, and `swarm workers revoke --with-workers` revokes all of them at\n" +
			"once.",
		Args: usage.AtMostOneName,
		RunE: func(cmd *cobra.Command, args []string) error {
			terms.Name = nameIn(args)
			switch {
			case once && cmd.Flags().Changed("uses"):
				return fail.Usage(errors.New("--once and --uses exclude each other"), "one of them")
			case cmd.Flags().Changed("uses") && (terms.Uses < 1 || terms.Uses > membership.MaxWorkers):
				return &configs.Error{Key: "uses", Value: strconv.Itoa(terms.Uses), Source: "--uses", Allowed: fmt.Sprintf("1 to %d workers", membership.MaxWorkers)}
			case cmd.Flags().Changed("expires") && terms.Life <= 0:
				return &configs.Error{Key: "expires", Value: terms.Life.String(), Source: "--expires", Allowed: "a time such as 12h or 720h"}
			case once:
				terms.Uses = 1
			}
			return runInvite(g, terms, out)
		},
	}
	invite.Flags().BoolVar(&once, "once", false, "admit one worker, once")
	invite.Flags().IntVar(&terms.Uses, "uses", 0, "admit this `number` of workers (default 16; without a name or another flag: 256)")
	invite.Flags().DurationVar(&terms.Life, "expires", 0, "`time` until the invitation expires (default 720h)")
	invite.Flags().StringVar(&out, "out", "", "write the invitation to this `file`, readable only by you, instead of stdout")
	var reason string
	ban := workerCommand(g, "ban", "Shut a worker out: close its connections, refuse its rollouts", func(r *membership.Registry, name string) error {
		if err := r.Ban(name, reason); err != nil {
			return err
		}
		g.stillInvited(name)
		return nil
	})
	ban.Flags().StringVar(&reason, "reason", "", "reason to show the worker")
	var withWorkers bool
	revoke := workerCommand(g, "revoke", "Revoke a worker's credentials, or an invitation", func(r *membership.Registry, name string) error {
		return g.revoke(r, name, withWorkers)
	})
	revoke.Flags().BoolVar(&withWorkers, "with-workers", false, "with an invitation's name: also revoke the workers that joined with it")
	cmd.AddCommand(
		invite, ban,
		workerCommand(g, "unban", "Let a banned worker in again", (*membership.Registry).Unban),
		revoke,
	)
	return cmd
}

func workerCommand(g *globals, verb, short string, do func(*membership.Registry, string) error) *cobra.Command {
	return &cobra.Command{
		Use:   verb + " NAME",
		Short: short,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fail.Usage(errors.New("name one worker"), "swarm workers, which lists their names")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			registry, err := g.registry()
			if err != nil {
				return err
			}
			return do(registry, args[0])
		},
	}
}

// standingInvitation is the registry's name for the invitation that swarm up prints.
const standingInvitation = "invitation"

func (g *globals) revoke(r *membership.Registry, name string, withWorkers bool) error {
	if withWorkers {
		gone, err := r.RevokeWithWorkers(name)
		if err != nil {
			return err
		}
		fmt.Fprintf(g.stderr, "Revoked invitation %s and %s that joined with it", name, units.Plural(len(gone), "worker"))
		if len(gone) > 0 {
			fmt.Fprintf(g.stderr, ": %s", charset.Line(strings.Join(gone, ", ")))
		}
		fmt.Fprintln(g.stderr)
		return nil
	}
	err := r.Revoke(name)
	if err == nil && name != standingInvitation {
		g.stillInvited(name)
	}
	return err
}

// stillInvited warns that a revoked worker may return under another name.
func (g *globals) stillInvited(name string) {
	fmt.Fprintf(g.stderr, "%s may still have the invitation that swarm up prints. To revoke it: swarm workers revoke %s\n", name, standingInvitation)
}

// registry opens the home's list of workers.
func (g *globals) registry() (*membership.Registry, error) {
	if _, err := os.Stat(g.home.Workers()); errors.Is(err, fs.ErrNotExist) {
		return nil, fail.Usage(fmt.Errorf("no worker has been admitted yet: there is no list of workers under %s", g.home), "swarm up --listen :"+workers.NATSPort)
	}
	return membership.OpenRegistry(g.home.Workers())
}

func runInvite(g *globals, terms membership.Terms, out string) error {
	if out == "" {
		if err := checkSecretOutput(g.stdout, "an invitation", "swarm workers invite --out FILE"); err != nil {
			return err
		}
	}
	registry, err := g.registry()
	if err != nil {
		return err
	}
	invitation, err := workers.ReadInvitation(g.home)
	if err != nil {
		return err
	}
	if invitation.Token, err = registry.InviteFor(terms); err != nil {
		return err
	}
	if out != "" {
		if err := writeSecretFile(out, invitation.String()); err != nil {
			return err
		}
		_, err = fmt.Fprintf(g.stdout, "swarm join --url-file %s\n", shell.Quote(out))
		return err
	}
	_, err = fmt.Fprintf(g.stdout, "swarm join '%s'\n", invitation)
	return err
}

func runWorkers(ctx context.Context, g *globals, name, output string) error {
	if err := checkOutput(output); err != nil {
		return err
	}
	reader, err := g.openReader(ctx)
	if err != nil {
		return err
	}
	defer reader.Close()
	listing, err := workers.List(ctx, g.home, reader, name)
	if err != nil {
		return err
	}
	if output == "json" {
		return writeJSON(g.stdout, listing)
	}
	return screen.Print(g.stdout, func(p *table.Page) { listing.Print(p, event.Now()) })
}
