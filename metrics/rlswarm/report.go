package rlswarm

import (
	"fmt"

	"github.com/sapo-swarm/swarm/metrics/store"
)

// problemsKept bounds the problems that a Report lists. It counts all of them.
const problemsKept = 200

// Report describes the contents of a folder, the resulting run, and what was left out.
type Report struct {
	Folder     string `json:"folder"`
	Experiment string `json:"experiment"`
	Run        string `json:"run"`
	State      string `json:"state"`
	Nodes      int    `json:"nodes"`
	Rounds     int    `json:"rounds"` // planned
	NodeRounds int    `json:"node_rounds"`

	Files         int            `json:"files"`           // read
	Records       map[string]int `json:"records"`         // by kind, including duplicates
	Doubled       int            `json:"doubled"`         // records that repeat an earlier one
	Replaced      int            `json:"replaced"`        // records contradicted by a newer one of the same node and round
	Disagreements int            `json:"disagreements"`   // node-rounds whose rewards/ file differs from the logs; the log counts
	NotNumbers    int            `json:"not_numbers"`     // node-rounds whose reward is NaN or infinite
	Untimed       int            `json:"untimed"`         // node-rounds without a time of their own
	FromSums      int            `json:"from_cumulative"` // node-rounds known only from the growth of cumulative_reward
	Errors        int            `json:"errors"`          // errors that nodes wrote to their progress files

	Assumed  []string  `json:"assumed"`  // assumptions for missing or contradictory data
	Problems []Problem `json:"problems"` // the first problemsKept problems
	Skipped  int       `json:"skipped"`  // number of unusable files and lines
}

// Problem is a skipped file or line.
type Problem struct {
	File   string `json:"file"`           // within the folder
	Line   int    `json:"line,omitempty"` // from 1; 0: the whole file
	Reason string `json:"reason"`
}

func (p Problem) String() string {
	if p.Line > 0 {
		return fmt.Sprintf("%q, line %d: %s", p.File, p.Line, p.Reason)
	}
	return fmt.Sprintf("%q: %s", p.File, p.Reason)
}

func (r *Report) problem(file string, line int, reason string) {
	r.Skipped++
	if len(r.Problems) < problemsKept {
		r.Problems = append(r.Problems, Problem{file, line, reason})
	}
}

func (r *Report) assume(format string, args ...any) {
	if len(r.Assumed) < problemsKept {
		r.Assumed = append(r.Assumed, fmt.Sprintf(format, args...))
	}
}

// describe adds the facts of the resulting run.
func (r *Report) describe(x store.Import) {
	r.Experiment, r.Run, r.State, r.Rounds, r.NodeRounds = x.Run.Experiment, x.Run.Run, x.Run.State, x.Run.Rounds, len(x.Rounds)
	r.Nodes = len(x.Run.NodeIDs)
}
