// Package verify repeats Algorithm 1 on a run's journals and compares the results. It draws the questions again and
// scores the journaled completions again. It draws the externals again from the peers' batches, then repeats advantages
// and updates. Weights, rewards and draws must equal those of the journals and of the database.
//
// It reads the run's folder and database, and uses engines with the run's initial weights. It does not change the run.
// It imports node and its dependencies, but never the database: Records abstracts it.
package verify

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/node"
	"github.com/sapo-swarm/swarm/node/policy"
	"github.com/sapo-swarm/swarm/node/task"
	"github.com/sapo-swarm/swarm/node/tokenizer"
)

// Engine is a model with the run's initial weights. *policy.Engine with its model loaded implements it.
type Engine interface {
	node.Policy
	Save(context.Context, policy.SaveParams) (policy.SaveResult, error)
	Close()
}

// Records gives access to the run's records in the database. Run calls its methods from several goroutines.
type Records interface {
	// Rounds returns at most limit recorded rounds of a node, in order, from the given one on.
	Rounds(ctx context.Context, node string, from, limit int) ([]event.Round, error)
	// Hashes returns the weight hashes of a node's recorded checkpoints, by the number of completed rounds.
	Hashes(ctx context.Context, node string) (map[int]string, error)
}

// Options select what to verify.
type Options struct {
	Dir     string // the run's folder, which contains each node's folder
	Nodes   []string
	Foreign []string       // the swarm's nodes on other hosts; this host lacks their journals
	From    map[string]int // first round of a node; 0 if absent
	Config  configs.Config
	Tokens  tokenizer.Tokenizer
	Own     map[string]Setting // for nodes with another model than Config's
	Records Records
	// Start starts an engine with the precision and threads of the run, and returns the model's context length in
	// tokens. Run calls it once per node and closes the engine.
	Start func(ctx context.Context, node string) (engine Engine, contextLength int, err error)

	Exact    bool   // the run can be reproduced bit for bit: on a CPU with the run's engine
	Inexact  string // the reason if it can't
	Generate bool   // also generate again and compare token by token
	Lowered  []int  // rounds from which on the alarm lowered the learning rate
	Jobs     int    // nodes at a time
	Scratch  string // folder for the weights of one checkpoint per job
	Logger   *slog.Logger
	Progress func(node string, rounds int) // called after each round, from several goroutines but one at a time; may be nil
}

// Setting replaces Options.Config and Options.Tokens for a node. The tasks and the format of shared rollouts are the
// same.
type Setting struct {
	Config configs.Config
	Tokens tokenizer.Tokenizer
}

// of returns the options of a node.
func (o Options) of(node string) Options {
	if own, ok := o.Own[node]; ok {
		o.Config, o.Tokens = own.Config, own.Tokens
	}
	return o
}

// Report is the result of a verification.
type Report struct {
	Verified  bool         `json:"verified"`          // nothing differs and nothing is damaged
	Exact     bool         `json:"exact"`             // weights and losses were compared bit for bit
	Inexact   string       `json:"inexact,omitempty"` // why not
	Generated bool         `json:"generated"`         // completions were generated again
	Rounds    int          `json:"rounds"`            // checked rounds, summed over nodes
	Seconds   float64      `json:"seconds"`
	Nodes     []NodeReport `json:"nodes"`
}

// NodeReport is the result for one node.
type NodeReport struct {
	Node        string       `json:"node"`
	Rounds      int          `json:"rounds"`            // checked rounds, starting at the node's first
	Partial     int          `json:"partial,omitempty"` // rounds of these that could be checked only in part (see replay.partial)
	Checkpoints int          `json:"checkpoints"`       // checkpoints with compared weights
	EqualHashes int          `json:"equal_hashes"`      // of these, those with equal bits
	Differences []Difference `json:"differences"`       // the first differences; never nil
	Damage      string       `json:"damage,omitempty"`
	Notes       []string     `json:"notes,omitempty"` // limits of the comparison that are no fault
}

// Good reports whether nothing differs and nothing is damaged.
func (r NodeReport) Good() bool { return len(r.Differences) == 0 && r.Damage == "" }

// Difference is a recorded value that differs from the repeated one.
type Difference struct {
	Node     string `json:"node"`
	Round    int    `json:"round"`    // counted from 0
	What     string `json:"what"`     // such as reward, token, advantage, weight_hash
	Where    string `json:"where"`    // the record: journal or database
	Expected string `json:"expected"` // the repeated value
	Found    string `json:"found"`    // the recorded value
}

// Error makes Difference an error that ends a round.
func (d *Difference) Error() string {
	return fmt.Sprintf("%s round %d: %s in the %s is %s, expected %s", d.Node, d.Round, d.What, d.Where, d.Found, d.Expected)
}

// Records that can contain a Difference.
const (
	Journal  = "journal"
	Database = "database"
)

// Run verifies all nodes. The report lists the differences. An error means that a node could not be verified.
func Run(ctx context.Context, o Options) (Report, error) {
	began := time.Now()
	report := Report{Verified: true, Exact: o.Exact, Inexact: o.Inexact, Generated: o.Generate, Nodes: make([]NodeReport, len(o.Nodes))}
	if o.Progress == nil {
		o.Progress = func(string, int) {}
	}
	var mu sync.Mutex // the caller's Progress need not be safe for concurrent use
	progress := o.Progress
	o.Progress = func(node string, rounds int) {
		mu.Lock()
		defer mu.Unlock()
		progress(node, rounds)
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(max(1, o.Jobs))
	for i, id := range o.Nodes {
		group.Go(func() error {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			tasks, err := task.Open(o.Config.Tasks) // one set per node, as in the run
			if err != nil {
				return err
			}
			check := &check{options: o.of(id), tasks: tasks, report: NodeReport{Node: id, Differences: []Difference{}}}
			if err := check.run(ctx); err != nil {
				return fmt.Errorf("%s: %w", id, err)
			}
			report.Nodes[i] = check.report
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return Report{}, err
	}
	for _, n := range report.Nodes {
		report.Verified = report.Verified && n.Good()
		report.Rounds += n.Rounds
	}
	report.Seconds = time.Since(began).Seconds()
	return report, nil
}
