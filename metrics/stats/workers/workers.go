// Package workers describes the other hosts that take part in a run.
package workers

import (
	"cmp"
	"slices"

	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/stats"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// Row is another host that takes part in a run, with the usefulness of its rollouts to other nodes.
type Row struct {
	Worker    string   `json:"worker"`
	Host      string   `json:"host"`
	Device    string   `json:"device"`
	Version   string   `json:"version"`
	State     string   `json:"state"` // connected, away, left, revoked, banned
	StateTime float64  `json:"state_time"`
	Nodes     int      `json:"nodes"`    // number of its nodes
	NodeIDs   []string `json:"node_ids"` // nodes recorded in the database
	Models    []string `json:"models"`   // models that these nodes loaded
	Rounds    int      `json:"rounds"`   // recorded rounds, sum over its nodes

	RolloutsAvailable int         `json:"rollouts_available"` // received in time by nodes of others, counted once per receiving node
	RolloutsRejected  int         `json:"rollouts_rejected"`  // rejected by nodes of others
	RolloutsUsed      int         `json:"rollouts_used"`      // trained on by nodes of others
	UsefulRatio       stats.Value `json:"useful_ratio"`       // 1 - rejected / (available + rejected); null: no rollouts
	UsedRatio         stats.Value `json:"used_ratio"`         // used / available; null: no rollouts

	Offered   int64   `json:"offered"` // batches since the coordinator's newest start; Refused and Bytes likewise
	Refused   int64   `json:"refused"` // of these, refused by the coordinator
	Bytes     int64   `json:"bytes"`   // received from it
	Reason    string  `json:"reason"`  // reason for its state, or for the newest refusal
	FirstSeen float64 `json:"first_seen"`
	LastSeen  float64 `json:"last_seen"` // Unix seconds
}

// Rows describes a run's workers, in their order, from a snapshot and the use of their rollouts by other
// nodes. After the run has ended, a connected worker counts as left.
func Rows(s store.Snapshot, rollouts []store.WorkerRollouts) []Row {
	rows := make([]Row, 0, len(s.Workers))
	for _, w := range s.Workers {
		row := Row{
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

func (row *Row) addNode(n store.Node) {
	row.NodeIDs = append(row.NodeIDs, n.Node)
	row.Rounds += n.RoundsDone
	if n.Model != "" && !slices.Contains(row.Models, n.Model) {
		row.Models = append(row.Models, n.Model)
	}
}

// ratio returns part / whole. It is not finite if whole is 0.
func ratio(part, whole int) stats.Value { return stats.Value(float64(part) / float64(whole)) }
