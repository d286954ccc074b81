package stats

import (
	"cmp"
	"slices"

	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// WorkerRow is another host that takes part in a run, and what its rollouts were worth to the others.
type WorkerRow struct {
	Worker    string   `json:"worker"`
	Host      string   `json:"host"`
	Device    string   `json:"device"`
	Version   string   `json:"version"`
	State     string   `json:"state"` // connected, away, left, revoked, banned
	StateTime float64  `json:"state_time"`
	Nodes     int      `json:"nodes"`    // that it brought
	NodeIDs   []string `json:"node_ids"` // those that the database has heard of
	Models    []string `json:"models"`   // that these loaded
	Rounds    int      `json:"rounds"`   // recorded of them, over all

	RolloutsAvailable int   `json:"rollouts_available"` // that others' nodes received of its nodes in time, counted at each that received
	RolloutsRejected  int   `json:"rollouts_rejected"`  // that others' nodes rejected
	RolloutsUsed      int   `json:"rollouts_used"`      // that others' nodes trained on
	UsefulRatio       Value `json:"useful_ratio"`       // 1 - rejected / (available + rejected); null: nobody had any
	UsedRatio         Value `json:"used_ratio"`         // used / available; null: nobody had any

	Offered   int64   `json:"offered"` // batches, since the coordinator's newest start, like the next two
	Refused   int64   `json:"refused"` // of these, by the coordinator
	Bytes     int64   `json:"bytes"`   // that it sent
	Reason    string  `json:"reason"`  // of its state, or of the newest refusal
	FirstSeen float64 `json:"first_seen"`
	LastSeen  float64 `json:"last_seen"` // Unix seconds
}

// NewWorkerRows describes a run's workers, in their order, from a snapshot and what others' nodes made of their
// rollouts. Once the run has ended nobody is connected to it.
func NewWorkerRows(s store.Snapshot, rollouts []store.WorkerRollouts) []WorkerRow {
	rows := make([]WorkerRow, 0, len(s.Workers))
	for _, w := range s.Workers {
		row := WorkerRow{
			Worker: w.Worker, Host: w.Host, Device: w.Device, Version: w.Version, State: string(w.State), StateTime: w.StateTime, Nodes: w.Nodes,
			Offered: w.Offered, Refused: w.Refused, Bytes: w.Bytes, Reason: w.Reason, FirstSeen: w.FirstSeen, LastSeen: w.LastSeen,
			NodeIDs: []string{}, Models: []string{},
		}
		if w.State == event.WorkerConnected && s.Run.State != store.RunRunning {
			row.State = string(event.WorkerLeft)
		}
		for _, n := range s.Nodes {
			if n.Worker == w.Worker {
				row.addNode(n)
			}
		}
		row.Nodes = cmp.Or(row.Nodes, len(row.NodeIDs))
		if i := slices.IndexFunc(rollouts, func(r store.WorkerRollouts) bool { return r.Worker == w.Worker }); i >= 0 {
			r := rollouts[i]
			row.RolloutsAvailable, row.RolloutsRejected, row.RolloutsUsed = r.Available, r.Rejected, r.Used
		}
		row.UsefulRatio = ratio(row.RolloutsAvailable, row.RolloutsAvailable+row.RolloutsRejected)
		row.UsedRatio = ratio(row.RolloutsUsed, row.RolloutsAvailable)
		rows = append(rows, row)
	}
	return rows
}

func (row *WorkerRow) addNode(n store.Node) {
	row.NodeIDs = append(row.NodeIDs, n.Node)
	row.Rounds += n.RoundsDone
	if n.Model != "" && !slices.Contains(row.Models, n.Model) {
		row.Models = append(row.Models, n.Model)
	}
}

// ratio is part / whole, not a number where there is no whole.
func ratio(part, whole int) Value { return Value(float64(part) / float64(whole)) }

// addWorkers counts the workers.
func (out *Status) addWorkers(workers []store.Worker) {
	out.Workers = len(workers)
	for _, w := range workers {
		if w.State == event.WorkerConnected && out.State == store.RunRunning {
			out.WorkersConnected++
		}
	}
}
