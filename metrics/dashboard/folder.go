package dashboard

import (
	"context"
	"net/http"
)

// LogQuery asks for lines of a run's logs.
type LogQuery struct {
	Run    string
	Node   string  // a node's name or coordinator; empty: all
	Around float64 // Unix seconds that the lines shall lie around; 0: the newest
	Lines  int     // at most
}

// Logs are lines of logs, oldest first.
type Logs struct {
	Lines []LogLine `json:"lines"`
	Note  string    `json:"note"` // why there are none, or not all
}

// LogLine is one line.
type LogLine struct {
	Time *float64 `json:"time"` // Unix seconds; null: not told
	Node string   `json:"node"`
	Text string   `json:"text"`
}

// RolloutQuery asks for what a node generated in a round, and what it learnt from others.
type RolloutQuery struct {
	Run   string
	Node  string // empty: the first
	Round int    // from 0; below 0: the newest
}

// Rollouts are a node's round as its journal has it. All text in it was written by models, or by strangers.
type Rollouts struct {
	Node      string     `json:"node"`
	Round     int        `json:"round"`
	Rounds    int        `json:"rounds"` // that there may be of this node
	Nodes     []string   `json:"nodes"`
	Note      string     `json:"note"` // what is missing, and why
	Questions []Question `json:"questions"`
	Externals []External `json:"externals"`
}

// Question is one of the node's own.
type Question struct {
	Task        string       `json:"task"`
	Question    string       `json:"question"`
	Answer      *string      `json:"answer"` // the answer key; null: the task has none
	Completions []Completion `json:"completions"`
}

// Completion is one answer of a model.
type Completion struct {
	Text       string   `json:"text"`
	Reward     *float64 `json:"reward"` // scored again here; null: it can't be
	Terminated bool     `json:"terminated"`
}

// External is a question that the node learnt from and another had asked.
type External struct {
	From string `json:"from"` // the node; empty: not found
	Question
}

// maxLogLines bounds one answer.
const maxLogLines = 1000

func (s *Server) getLogs(ctx context.Context, r *http.Request) (any, error) {
	p := readParams(r)
	q := LogQuery{Node: p.name("node"), Lines: p.whole("lines", 100, 1, maxLogLines)}
	q.Around, _ = p.number("around")
	node := q.Node
	if node == Coordinator {
		node = ""
	}
	k, err := s.folder(ctx, r, p, node)
	if err != nil {
		return nil, err
	}
	if s.options.Logs == nil {
		return Logs{Lines: []LogLine{}, Note: "this server has no logs at hand"}, nil
	}
	q.Run = k.totals.Run.Run
	logs, err := s.options.Logs(ctx, q)
	if logs.Lines == nil {
		logs.Lines = []LogLine{}
	}
	return logs, err
}

func (s *Server) getRollouts(ctx context.Context, r *http.Request) (any, error) {
	p := readParams(r)
	q := RolloutQuery{Node: p.name("node"), Round: p.whole("round", -1, 0, 1<<31-1)}
	k, err := s.folder(ctx, r, p, q.Node)
	if err != nil {
		return nil, err
	}
	empty := Rollouts{Nodes: []string{}, Questions: []Question{}, Externals: []External{}}
	if s.options.Rollouts == nil {
		empty.Note = "this server has no journals at hand"
		return empty, nil
	}
	q.Run = k.totals.Run.Run
	if q.Node == "" && len(k.status.Nodes) > 0 {
		q.Node = k.status.Nodes[0].ID
	}
	if q.Node == "" {
		empty.Note = "the run has no nodes yet"
		return empty, nil
	}
	rollouts, err := s.options.Rollouts(ctx, q)
	if rollouts.Questions == nil {
		rollouts.Questions = empty.Questions
	}
	if rollouts.Externals == nil {
		rollouts.Externals = empty.Externals
	}
	rollouts.Nodes = empty.Nodes
	for _, n := range k.status.Nodes {
		rollouts.Nodes = append(rollouts.Nodes, n.ID)
		if n.ID == q.Node {
			rollouts.Rounds = max(rollouts.Rounds, n.Round)
		}
	}
	return rollouts, err
}

// folder checks a request for what lies in a run's folder. The node becomes part of a path: it has to be one of the
// run's.
func (s *Server) folder(ctx context.Context, r *http.Request, p *params, node string) (*known, error) {
	if err := p.done(); err != nil {
		return nil, err
	}
	k, err := s.run(ctx, r)
	if err != nil || node == "" {
		return k, err
	}
	for _, n := range k.status.Nodes {
		if n.ID == node {
			return k, nil
		}
	}
	return nil, missing("run %s has no node %.80q", k.totals.Run.Run, node)
}

// Coordinator is how the coordinator's log is called among those of nodes.
const Coordinator = "coordinator"
