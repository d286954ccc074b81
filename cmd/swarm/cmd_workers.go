package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/sapo-swarm/swarm/internal/charset"
	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/screen"
	"github.com/sapo-swarm/swarm/internal/table"
	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/internal/usage"
	"github.com/sapo-swarm/swarm/launcher/workers"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/query"
	"github.com/sapo-swarm/swarm/metrics/stats"
	"github.com/sapo-swarm/swarm/node/exchange/membership"
)

func newWorkersCommand(g *globals) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "workers [RUN]",
		Short: "List workers, invite them, and decide who may join",
		Long: "workers lists the hosts that joined a run (the newest that this home coordinates, if none is named): their nodes,\n" +
			"what of their rollouts was of use to the others, and what was\n" +
			"refused. invite prints a line that lets others in; revoke, ban and unban decide about those who have it. They take effect at once, also\n" +
			"while a run goes on.",
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
	invite := &cobra.Command{
		Use:   "invite [NAME]",
		Short: "Print an invitation, for one worker or for several",
		Args:  usage.AtMostOneName,
		RunE: func(cmd *cobra.Command, args []string) error {
			return runInvite(g, nameIn(args), once)
		},
	}
	invite.Flags().BoolVar(&once, "once", false, "the line lets in one worker, once")
	var reason string
	ban := workerCommand(g, "ban", "Shut a worker out: its connections end, and what it offers is refused", func(r *membership.Registry, name string) error {
		if err := r.Ban(name, reason); err != nil {
			return err
		}
		g.stillInvited(name)
		return nil
	})
	ban.Flags().StringVar(&reason, "reason", "", "what the worker is told")
	cmd.AddCommand(
		invite, ban,
		workerCommand(g, "unban", "Let a banned worker in again", (*membership.Registry).Unban),
		workerCommand(g, "revoke", "Revoke a worker's credentials, or an invitation", g.revoke),
	)
	return cmd
}

func workerCommand(g *globals, verb, short string, do func(*membership.Registry, string) error) *cobra.Command {
	return &cobra.Command{
		Use:   verb + " NAME",
		Short: short,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fail.Usage(errors.New("one worker's name is needed"), "swarm workers, which lists them")
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

// standingInvitation is what the registry calls the line of swarm up.
const standingInvitation = "invitation"

func (g *globals) revoke(r *membership.Registry, name string) error {
	err := r.Revoke(name)
	if err == nil && name != standingInvitation {
		g.stillInvited(name)
	}
	return err
}

// stillInvited says that who is shut out under one name may come back under another.
func (g *globals) stillInvited(name string) {
	fmt.Fprintf(g.stderr, "%s may still have the invitation that swarm up prints: swarm workers revoke %s ends that, too\n", name, standingInvitation)
}

// registry is the home's list of workers, where there is one.
func (g *globals) registry() (*membership.Registry, error) {
	if _, err := os.Stat(g.home.Workers()); errors.Is(err, fs.ErrNotExist) {
		return nil, fail.Usage(fmt.Errorf("nobody has been let in yet: there is no list of workers under %s", g.home), "swarm up --listen :"+workers.NATSPort)
	}
	return membership.OpenRegistry(g.home.Workers())
}

func runInvite(g *globals, name string, once bool) error {
	registry, err := g.registry()
	if err != nil {
		return err
	}
	invitation, err := workers.ReadInvitation(g.home)
	if err != nil {
		return err
	}
	if invitation.Token, err = registry.Invite(name, once); err != nil {
		return err
	}
	_, err = fmt.Fprintf(g.stdout, "swarm join '%s'\n", invitation)
	return err
}

// workersDocument is what workers -o json prints.
type workersDocument struct {
	Run     string            `json:"run"`    // that this home coordinates; empty: none
	Joined  string            `json:"joined"` // this home's newest part in another host's run; empty: none
	Workers []stats.WorkerRow `json:"workers"`
	Listed  []listedDocument  `json:"listed"`
}

// listedDocument is one who may join, or may not any more.
type listedDocument struct {
	Name     string  `json:"name"`
	Kind     string  `json:"kind"` // worker, invitation
	Created  float64 `json:"created"`
	LastSeen float64 `json:"last_seen"` // 0: never
	Host     string  `json:"host"`
	Revoked  bool    `json:"revoked"`
	Banned   string  `json:"banned"` // why; empty: not banned
	Once     bool    `json:"once"`
	Used     bool    `json:"used"`
}

func runWorkers(ctx context.Context, g *globals, name, output string) error {
	if err := checkOutput(output); err != nil {
		return err
	}
	document := workersDocument{Workers: []stats.WorkerRow{}, Listed: []listedDocument{}}
	reader, err := g.openReader(ctx)
	if err != nil {
		return err
	}
	defer reader.Close()
	if document.Run, document.Joined, err = workersRun(ctx, g, reader, name); err != nil {
		return err
	}
	if document.Run != "" {
		if document.Workers, err = query.Workers(ctx, reader, document.Run); err != nil {
			return err
		}
	}
	if _, err := os.Stat(g.home.Workers()); err == nil {
		registry, err := membership.OpenRegistry(g.home.Workers())
		if err != nil {
			return err
		}
		entries, err := registry.List()
		if err != nil {
			return err
		}
		for _, e := range entries {
			document.Listed = append(document.Listed, listedDocument{e.Name, e.Kind, e.Created, e.LastSeen, e.Host, e.Revoked, e.Banned, e.Once, e.Used})
		}
	}
	if output == "json" {
		return writeJSON(g.stdout, document)
	}
	return screen.Print(g.stdout, func(p *table.Page) { printWorkers(p, document, event.Now()) })
}

func printWorkers(p *table.Page, d workersDocument, now float64) {
	switch {
	case len(d.Workers) > 0:
		p.Printf("Workers of %s\n", d.Run)
		p.Table(workersTable(d.Workers, now))
	case d.Run != "":
		p.Printf("Nobody has joined run %s.\n", d.Run)
	case d.Joined != "":
		p.Printf("This host coordinates no run: it has joined another host's (%s), where swarm workers lists who takes part.\n", d.Joined)
	default:
		p.Println("No run is recorded.")
	}
	if len(d.Listed) > 0 {
		p.Println("\nWho may join")
		p.Table(listedTable(d.Listed, now))
	}
}

func workersTable(rows []stats.WorkerRow, now float64) *table.Table {
	t := table.New(
		table.Column{Title: "WORKER"}, table.Column{Title: "STATE"}, table.Column{Title: "NODES", Right: true, Drop: 1},
		table.Column{Title: "ROUNDS", Right: true}, table.Column{Title: "DEVICE", Drop: 4, Max: 24}, table.Column{Title: "HOST", Drop: 5, Max: 24},
		table.Column{Title: "USEFUL", Right: true, Drop: 2}, table.Column{Title: "DRAWN", Right: true, Drop: 6},
		table.Column{Title: "REFUSED", Right: true, Drop: 3}, table.Column{Title: "SEEN", Drop: 1}, table.Column{Title: "WHY", Wrap: true, Optional: true},
	)
	for _, r := range rows {
		useful := "–"
		if r.RolloutsAvailable+r.RolloutsRejected > 0 {
			useful = fmt.Sprintf("%.0f %%", 100*r.UsefulRatio)
		}
		t.Add(charset.Shown(r.Worker), r.State, strconv.Itoa(r.Nodes), strconv.Itoa(r.Rounds), charset.Shown(r.Device), charset.Shown(r.Host), useful,
			strconv.Itoa(r.RolloutsUsed), strconv.FormatInt(r.Refused, 10), units.Ago(r.LastSeen, now), charset.Shown(r.Reason))
	}
	return t
}

func listedTable(rows []listedDocument, now float64) *table.Table {
	t := table.New(table.Column{Title: "NAME"}, table.Column{Title: "KIND", Drop: 2}, table.Column{Title: "STATE", Wrap: true}, table.Column{Title: "SEEN", Drop: 1})
	for _, e := range rows {
		state := "may join"
		switch {
		case e.Banned != "":
			state = "banned: " + charset.Shown(e.Banned)
		case e.Revoked:
			state = "revoked"
		case e.Once && e.Used:
			state = "used"
		}
		seen := units.Ago(e.LastSeen, now)
		if e.Kind == "invitation" { // of its use the workers tell
			seen = ""
		}
		t.Add(charset.Shown(e.Name), e.Kind, state, seen)
	}
	return t
}
