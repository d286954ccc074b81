package stats

import "github.com/sapo-swarm/swarm/metrics/store"

// RunRow is one run in a table of all runs. Unknown figures are null.
type RunRow struct {
	Run                string   `json:"run"`
	Experiment         string   `json:"experiment"`
	Config             string   `json:"config"` // I/J
	NumGenerations     int      `json:"num_generations"`
	Model              string   `json:"model"`
	Device             string   `json:"device"`
	Seed               int64    `json:"seed"`
	State              string   `json:"state"`
	Message            string   `json:"message"`
	Round              int      `json:"round"` // finished rounds, as in a Status
	Rounds             int      `json:"rounds"`
	Nodes              int      `json:"nodes"`   // planned nodes, and those of workers
	Workers            int      `json:"workers"` // other hosts that joined
	CumulativeReward   float64  `json:"cumulative_reward"`
	RewardPerNodeRound *float64 `json:"reward_per_node_round"` // of the nodes that train, over the recorded rounds
	EvalReward         *float64 `json:"eval_reward"`           // mean over nodes, questions and completions of the newest held-out evaluation
	EvalRound          *int     `json:"eval_round"`            // rounds that the evaluated weights were trained for
	EvalSet            string   `json:"eval_set"`              // only evaluations of equal sets are comparable
	ETASeconds         *float64 `json:"eta_seconds"`
	Started            float64  `json:"started"` // Unix seconds
	Ended              *float64 `json:"ended"`
	ActiveSeconds      float64  `json:"active_seconds"`
	Restarts           int      `json:"restarts"`
	Attempts           int      `json:"attempts"`
	Cost               *float64 `json:"cost"`
	PriceCurrency      string   `json:"price_currency"`
}

// NewRunRow describes a run by its sums, its status at the same moment, and its newest held-out evaluation. A zero e
// means that it has no evaluation.
func NewRunRow(t store.Totals, s Status, e store.EvalTotal) RunRow {
	row := RunRow{
		Run: s.Run, Experiment: s.Experiment, Config: ConfigName(t.Run), NumGenerations: t.NumGenerations, Model: s.Model, Device: s.Device,
		Seed: t.Seed, State: s.State, Message: s.Message, Round: s.Round, Rounds: s.Rounds, Nodes: s.NodesPlanned, Workers: s.Workers,
		CumulativeReward: s.CumulativeReward, ETASeconds: s.ETASeconds, Started: s.Started, ActiveSeconds: s.ActiveSeconds,
		Restarts: s.Restarts, Attempts: s.Attempts, Cost: s.Cost, PriceCurrency: s.PriceCurrency,
	}
	if reward, ok := RewardPerNodeRound(t); ok {
		row.RewardPerNodeRound = Optional(reward)
	}
	if t.Ended > 0 {
		row.Ended = Optional(t.Ended)
	}
	if row.EvalReward = evalReward(e); row.EvalReward != nil {
		row.EvalRound, row.EvalSet = &e.Round, e.Set
	}
	return row
}
