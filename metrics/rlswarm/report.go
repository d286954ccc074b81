package rlswarm

import (
	"fmt"

	"github.com/sapo-swarm/swarm/metrics/store"
)

// problemsKept bounds how many problems a Report names; it counts all.
const problemsKept = 200

// Report tells what was found in a folder, what was made of it, and what was left out.
type Report struct {
	Folder     string `json:"folder"`
	Experiment string `json:"experiment"`
	Run        string `json:"run"`
	State      string `json:"state"`
	Nodes      int    `json:"nodes"`
	Rounds     int    `json:"rounds"` // planned
	NodeRounds int    `json:"node_rounds"`

	Files         int            `json:"files"`           // read
	Records       map[string]int `json:"records"`         // by kind, doubled ones included
	Doubled       int            `json:"doubled"`         // records that say again what one before them said
	Replaced      int            `json:"replaced"`        // records that a newer one of the same node and round contradicts
	Disagreements int            `json:"disagreements"`   // node-rounds whose rewards/ file and logs/ differ; the log counts
	NotNumbers    int            `json:"not_numbers"`     // node-rounds whose reward is NaN or infinite
	Untimed       int            `json:"untimed"`         // node-rounds without a time of their own
	FromSums      int            `json:"from_cumulative"` // node-rounds known only by what cumulative_reward grew by
	Errors        int            `json:"errors"`          // that nodes wrote into their progress files

	Assumed  []string  `json:"assumed"`  // what the folder doesn't tell, or tells twice
	Problems []Problem `json:"problems"` // the first of them
	Skipped  int       `json:"skipped"`  // files and lines that could not be used: all of them
}

// Problem is a file, or a line of one, that was skipped.
type Problem struct {
	File   string `json:"file"`           // within the folder
	Line   int    `json:"line,omitempty"` // from 1; 0: the file as a whole
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

// describe names what was made.
func (r *Report) describe(x store.Import) {
	r.Experiment, r.Run, r.State, r.Rounds, r.NodeRounds = x.Run.Experiment, x.Run.Run, x.Run.State, x.Run.Rounds, len(x.Rounds)
	r.Nodes = len(x.Run.NodeIDs)
}
