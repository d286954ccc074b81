// Package verify runs Algorithm 1 again on a run's journals, and compares: the questions are drawn again, the journaled
// completions scored again, the externals drawn again out of what the peers shared, the advantages computed and the
// updates made again, and weights, rewards and draws must be those of the journals and of the database.
//
// It takes the run's folder, what the database has of it, and engines with the run's first weights. It changes nothing
// of the run. It imports node and what node imports, never the database: Records stands for it.
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

// Engine is a model with the run's first weights; *policy.Engine with its model loaded is the real one.
type Engine interface {
	node.Policy
	Save(context.Context, policy.SaveParams) (policy.SaveResult, error)
	Close()
}

// Records is what the database has of the run. Its methods are called from several goroutines.
type Records interface {
	// Rounds returns a node's recorded rounds from a round on, in order, at most limit.
	Rounds(ctx context.Context, node string, from, limit int) ([]event.Round, error)
	// Hashes returns the weight hashes of a node's recorded checkpoints, by rounds done.
	Hashes(ctx context.Context, node string) (map[int]string, error)
}

// Options say what to verify.
type Options struct {
	Dir     string // the run's: each node's folder is in it
	Nodes   []string
	Foreign []string       // the swarm's nodes of other hosts: their journals are not here
	From    map[string]int // round that a node began with; none: 0
	Config  configs.Config
	Tokens  tokenizer.Tokenizer
	Own     map[string]Setting // of nodes whose model is another than Config's
	Records Records
	// Start starts an engine, in the precision and with the threads that the run had, and tells the model's context
	// length in tokens. It is called once a node; the engine is closed here.
	Start func(ctx context.Context, node string) (engine Engine, contextLength int, err error)

	Exact    bool   // the same bits come out as in the run: of a CPU and the run's engine they do
	Inexact  string // where they don't, why
	Generate bool   // generate again too, and compare token by token
	Jobs     int    // nodes at a time
	Scratch  string // folder for the weights of one checkpoint a job
	Logger   *slog.Logger
	Progress func(node string, rounds int) // told after each round, from several goroutines; may be nil
}

// Setting is what a node has in place of Options.Config and Tokens; tasks and what nodes share are the same.
type Setting struct {
	Config configs.Config
	Tokens tokenizer.Tokenizer
}

// of are the options of a node.
func (o Options) of(node string) Options {
	if own, ok := o.Own[node]; ok {
		o.Config, o.Tokens = own.Config, own.Tokens
	}
	return o
}

// Report is what came of it.
type Report struct {
	Verified  bool         `json:"verified"`  // nothing differs and nothing is damaged
	Exact     bool         `json:"exact"`     // weights and losses were compared bit for bit
	Generated bool         `json:"generated"` // completions were generated again
	Rounds    int          `json:"rounds"`    // node-rounds that were checked
	Seconds   float64      `json:"seconds"`
	Nodes     []NodeReport `json:"nodes"`
}

// NodeReport is what came of one node.
type NodeReport struct {
	Node        string       `json:"node"`
	Rounds      int          `json:"rounds"`            // checked, from the node's first
	Partial     int          `json:"partial,omitempty"` // of these, rounds whose draw of others' rollouts could not be made again: see partial
	Checkpoints int          `json:"checkpoints"`       // whose weights were compared
	EqualHashes int          `json:"equal_hashes"`      // of these, with the same bits
	Differences []Difference `json:"differences"`       // the first ones; never nil
	Damage      string       `json:"damage,omitempty"`
	Notes       []string     `json:"notes,omitempty"` // what is no fault but says how much was compared
}

// Good tells whether nothing differs and nothing is damaged.
func (r NodeReport) Good() bool { return len(r.Differences) == 0 && r.Damage == "" }

// Difference is something that was recorded otherwise than it comes out.
type Difference struct {
	Node     string `json:"node"`
	Round    int    `json:"round"`    // counted from 0
	What     string `json:"what"`     // such as reward, token, advantage, weight_hash
	Where    string `json:"where"`    // in whose record: journal or database
	Expected string `json:"expected"` // as it comes out now
	Found    string `json:"found"`    // as it is recorded
}

// Error makes a difference end a round.
func (d *Difference) Error() string {
	return fmt.Sprintf("%s round %d: %s in the %s is %s, expected %s", d.Node, d.Round, d.What, d.Where, d.Found, d.Expected)
}

// Records that a Difference is in.
const (
	Journal  = "journal"
	Database = "database"
)

// Run verifies all nodes. What differs is in the report; an error says that it could not be found out.
func Run(ctx context.Context, o Options) (Report, error) {
	began := time.Now()
	report := Report{Verified: true, Exact: o.Exact, Generated: o.Generate, Nodes: make([]NodeReport, len(o.Nodes))}
	if o.Progress == nil {
		o.Progress = func(string, int) {}
	}
	var mu sync.Mutex // Progress is the caller's
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
			tasks, err := task.Open(o.Config.Tasks) // each node its own, as in the run
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
