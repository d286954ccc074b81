package dashboard

import (
	"context"
	"net/http"
)

// LogQuery is a request for lines of a run's logs.
type LogQuery struct {
	Run    string
	Node   string  // name of a node, or coordinator; empty: all
	Around float64 // Unix seconds around which to read; 0: newest lines
	Lines  int     // maximum number
}

// Logs are lines of logs, oldest first.
type Logs struct {
	Lines []LogLine `json:"lines"`
	Note  string    `json:"note"` // why lines are missing; empty: none are
}

// LogLine is one line.
type LogLine struct {
	Time *float64 `json:"time"` // Unix seconds; null: unknown
	Node string   `json:"node"`
	Text string   `json:"text"`
}

// RolloutQuery is a request for a node's rollouts in a round: its own, and those it used from others.
type RolloutQuery struct {
	Run   string
	Node  string // empty: the first node
	Round int    // from 0; below 0: the newest round
}

// Rollouts is a node's round from its journal. All texts are untrusted: models or other users wrote them.
type Rollouts struct {
	Node      string     `json:"node"`
	Round     int        `json:"round"`
	Rounds    int        `json:"rounds"` // upper bound of this node's rounds
	Nodes     []string   `json:"nodes"`
	Note      string     `json:"note"` // what is missing, and why
	Questions []Question `json:"questions"`
	Externals []External `json:"externals"`
}

// Question is one of the node's own questions.
type Question struct {
	Task        string       `json:"task"`
	Question    string       `json:"question"`
	Answer      *string      `json:"answer"` // reference answer; null: the task has none
	Completions []Completion `json:"completions"`
}

// Completion is one completion of a question.
type Completion struct {
	Text       string   `json:"text"`
	Reward     *float64 `json:"reward"` // recomputed; null: not possible
	Terminated bool     `json:"terminated"`
}

// External is a question of another node that this node trained on.
type External struct {
	From string `json:"from"` // name of the other node; empty: not found
	Question
}

// maxLogLines bounds the lines of one document.
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
		return Logs{Lines: []LogLine{}, Note: "this server has no access to logs"}, nil
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
		empty.Note = "this server has no access to journals"
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

// folder validates a request for data in a run's folder. The node becomes part of a path, so it must be a node of the
// run.
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

// Coordinator is the name of the coordinator's log.
const Coordinator = "coordinator"
