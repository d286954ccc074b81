package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/interrupt"
	"github.com/sapo-swarm/swarm/internal/screen"
	"github.com/sapo-swarm/swarm/internal/table"
	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/launcher/coordinator"
	"github.com/sapo-swarm/swarm/launcher/fit"
	"github.com/sapo-swarm/swarm/launcher/lifecycle"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/store"
	"github.com/sapo-swarm/swarm/node/verify"
)

type verifyOptions struct {
	generate bool
	output   string
}

func newVerifyCommand(g *globals) *cobra.Command {
	var o verifyOptions
	cmd := &cobra.Command{
		Use:   "verify EXPERIMENT or RUN",
		Short: "Make a finished run again from its logs, and compare weights, rewards and draws",
		Long: "verify makes every round of a run that has ended again out of the nodes' journals: questions are drawn again, completions scored\n" +
			"again, externals drawn again, and every update is made again from the first weights. What comes out must be what the journals and\n" +
			"the database have: rewards, training sets, losses, and the weights at every checkpoint. On a CPU that holds bit for bit; on a GPU,\n" +
			"which does not compute the same bits each time, weights and losses are compared for information only.",
		Example: "  swarm verify 4loc4ext\n  swarm verify 4loc4ext-2 --generate -o json",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fail.Usage(fmt.Errorf("verify takes one experiment or run, not %d", len(args)), "swarm ls")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return runVerify(cmd.Context(), g, args[0], o)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&o.generate, "generate", false, "generate the completions again too, and compare them token by token: takes as long as the run")
	addOutputFlag(f, &o.output)
	return cmd
}

// verified is the command's document.
type verified struct {
	Run        string `json:"run"`
	Experiment string `json:"experiment"`
	State      string `json:"state"` // the run's
	Device     string `json:"device"`
	verify.Report
}

func runVerify(ctx context.Context, g *globals, name string, o verifyOptions) error {
	if err := checkOutput(o.output); err != nil {
		return err
	}
	reader, err := g.openReader(ctx)
	if err != nil {
		return err
	}
	defer reader.Close()
	snapshot, err := reader.Snapshot(ctx, name)
	if err != nil {
		return lifecycle.NotFound(err, name)
	}
	if err := coordinator.ForeignNodes(snapshot.Run); err != nil {
		return err
	}
	if err := ended(snapshot); err != nil {
		return err
	}
	ctx, interrupts := interrupt.Notify(ctx, g.stderr, "Stopping.")
	defer interrupts.Close()
	report, err := verifyRun(ctx, g, reader, snapshot, o.generate)
	if err != nil {
		return interrupt.Exit(ctx, err)
	}
	run := snapshot.Run
	result := verified{run.Run, run.Experiment, run.State, run.Device, report}
	if o.output == "json" {
		err = writeJSON(g.stdout, result)
	} else {
		err = screen.Print(g.stdout, func(p *table.Page) { printVerified(p, result) })
	}
	if err == nil && !report.Verified {
		err = fmt.Errorf("run %s is not what its logs say", run.Run)
	}
	return err
}

// ended refuses a run that goes on, or was cut off: its database may not have yet what its journals have.
func ended(s store.Snapshot) error {
	run := s.Run
	switch {
	case run.State != store.RunRunning:
		return nil
	case lifecycle.Alive(s, event.Now()):
		return fail.Usage(fmt.Errorf("run %s is still running", run.Run), "when it is done; or swarm down "+run.Run+", which stops it in order")
	}
	return fail.Usage(fmt.Errorf("run %s was cut off in the middle", run.Run), "swarm up with its configuration goes on with it; verify it then")
}

func printVerified(out *table.Page, v verified) {
	spent := units.Seconds(v.Seconds).Round(time.Second)
	fmt.Fprintf(out, "%s: %s made again in %s, %s\n\n", v.Run, units.Plural(v.Rounds, "node-round"), spent, compared(v))
	t := table.New(table.Column{Title: "node"}, table.Column{Title: "rounds", Right: true}, table.Column{Title: "checkpoints", Right: true, Drop: 2},
		table.Column{Title: "equal weights", Right: true, Drop: 1}, table.Column{Title: "result", Wrap: true})
	for _, n := range v.Nodes {
		t.Add(n.Node, strconv.Itoa(n.Rounds), strconv.Itoa(n.Checkpoints), strconv.Itoa(n.EqualHashes), outcomeOf(n))
	}
	out.Table(t)
	for _, n := range v.Nodes {
		for _, d := range n.Differences {
			fmt.Fprintf(out, "\n%s round %d: %s in the %s is %s, expected %s\n", d.Node, d.Round, d.What, d.Where, short(d.Found), short(d.Expected))
		}
		if n.Damage != "" {
			fmt.Fprintf(out, "\n%s: %s\n", n.Node, n.Damage)
		}
		for _, note := range n.Notes {
			fmt.Fprintf(out, "\n%s: %s\n", n.Node, note)
		}
	}
}

// compared says what was compared.
func compared(v verified) string {
	what := "bit for bit"
	if !v.Exact {
		what = "weights and losses for information only: " + v.Device + " does not compute the same bits each time"
	}
	if !v.Exact && v.Device == fit.DeviceCPU {
		what = "weights and losses for information only: " + anotherEngine
	}
	if v.Generated {
		what += ", completions generated again"
	}
	return what
}

func outcomeOf(n verify.NodeReport) string {
	switch {
	case n.Damage != "":
		return "damaged"
	case len(n.Differences) > 0:
		return "differs"
	}
	return "verified"
}

// short cuts a value that nobody would read to its end.
func short(text string) string {
	const most = 200
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}
