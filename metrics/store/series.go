package store

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"slices"

	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/store/sqlite"
)

// RoundValue is one metric of one node's round.
type RoundValue struct {
	Round int
	Node  string
	Time  float64 // end of the round, Unix seconds
	Value float64 // NaN: not finite
}

// RoundBand is one metric of one round over the nodes that finished it.
type RoundBand struct {
	Round          int
	Nodes          int     // number of nodes
	End            float64 // when the last of them finished it, Unix seconds
	Mean, Min, Max float64 // over the finite values; NaN: none
}

// metricSQL inserts a metric's column into a query, or NULL if the database's schema does not have it. It inserts only
// names of known metrics.
func (r *Reader) metricSQL(ctx context.Context, format, metric string) (string, error) {
	m, ok := event.MetricNamed(metric)
	if !ok {
		return "", fmt.Errorf("%w: no metric %q", ErrNotFound, metric)
	}
	column := m.Name
	if ok, err := r.has(ctx, m.Since); err != nil {
		return "", err
	} else if !ok {
		column = "NULL"
	}
	return fmt.Sprintf(format, column), nil
}

const (
	roundValuesSQL = `SELECT round, node, time, %[1]s FROM rounds WHERE run = ? AND round >= ? ORDER BY round, node`
	roundBandsSQL  = `SELECT round, count(*), max(time), avg(%[1]s), min(%[1]s), max(%[1]s) FROM rounds WHERE run = ? AND round >= ?
GROUP BY round ORDER BY round`
)

// RoundValues returns a metric of a run's rounds from a round on, by round and then by node as text: node_10 before
// node_2. An unknown metric is ErrNotFound.
func (r *Reader) RoundValues(ctx context.Context, run, metric string, from int) ([]RoundValue, error) {
	q, err := r.metricSQL(ctx, roundValuesSQL, metric)
	if err != nil {
		return nil, err
	}
	var values []RoundValue
	err = sqlite.Query(ctx, r.db, func(rows *sql.Rows) error {
		var x RoundValue
		err := rows.Scan(&x.Round, &x.Node, &x.Time, (*number)(&x.Value))
		values = append(values, x)
		return err
	}, q, run, from)
	return values, sqlite.Explain(r.path, err)
}

// Gradients returns the gradients of a run's nodes by worker, "" for the coordinator's host, and by round, from 0, each
// round's by node as text. Those of nodes that did not train, and those whose norm is not finite, are missing.
func (r *Reader) Gradients(ctx context.Context, run string) (map[string][][]event.Gradient, error) {
	shared, err := r.has(ctx, schemaWorkers)
	if err != nil {
		return nil, err
	}
	owner := "''"
	if shared {
		owner = "worker"
	}
	byWorker := map[string][][]event.Gradient{}
	err = sqlite.Query(ctx, r.db, func(rows *sql.Rows) error {
		var worker string
		var round int
		var norm, flat, own, external number
		if err := rows.Scan(&worker, &round, &norm, &flat, &own, &external); err != nil {
			return err
		}
		series := byWorker[worker]
		for len(series) <= round {
			series = append(series, nil)
		}
		if units.Finite(float64(norm)) {
			series[round] = append(series[round], event.Gradient{Norm: float64(norm), Flat: float64(flat), Own: float64(own), External: float64(external)})
		}
		byWorker[worker] = series
		return nil
	}, `SELECT `+owner+`, round, grad_norm, frac_reward_zero_std, trained_own, trained_external FROM rounds JOIN nodes USING (run, node)
WHERE run = ? ORDER BY round, node`, run)
	return byWorker, sqlite.Explain(r.path, err)
}

// RoundBands returns a metric of a run's rounds from a round on, over nodes, by round. An unknown metric is
// ErrNotFound.
func (r *Reader) RoundBands(ctx context.Context, run, metric string, from int) ([]RoundBand, error) {
	q, err := r.metricSQL(ctx, roundBandsSQL, metric)
	if err != nil {
		return nil, err
	}
	var bands []RoundBand
	err = sqlite.Query(ctx, r.db, func(rows *sql.Rows) error {
		var x RoundBand
		err := rows.Scan(&x.Round, &x.Nodes, &x.End, (*number)(&x.Mean), (*number)(&x.Min), (*number)(&x.Max))
		bands = append(bands, x)
		return err
	}, q, run, from)
	return bands, sqlite.Explain(r.path, err)
}

// RewardSum sums the rewards of a run's nodes that train over its first rounds.
type RewardSum struct {
	NodeRounds int     // recorded rounds
	Reward     float64 // sum; non-finite rewards count as 0
}

// RewardSums returns the sums over a run's first rounds, for each of the given numbers of rounds. It reads the run's
// rounds once, up to the highest number.
func (r *Reader) RewardSums(ctx context.Context, run string, rounds []int) (map[int]RewardSum, error) {
	sums := map[int]RewardSum{}
	if len(rounds) == 0 {
		return sums, nil
	}
	ends := slices.Sorted(slices.Values(rounds))
	shared, err := r.has(ctx, schemaWorkers)
	if err != nil {
		return nil, err
	}
	var total RewardSum
	next := 0
	pass := func(round int) { // all rounds before this one have been added
		for ; next < len(ends) && ends[next] <= round; next++ {
			sums[ends[next]] = total
		}
	}
	err = sqlite.Query(ctx, r.db, func(rows *sql.Rows) error {
		var round, nodes int
		var reward float64
		if err := rows.Scan(&round, &nodes, &reward); err != nil {
			return err
		}
		pass(round)
		total.NodeRounds += nodes
		total.Reward += reward
		return nil
	}, `SELECT round, count(*), coalesce(sum(reward), 0.0) FROM rounds WHERE run = ? AND round < ? AND `+trainedSQL(shared, "rounds")+` GROUP BY round ORDER BY round`,
		run, ends[len(ends)-1])
	pass(math.MaxInt)
	return sums, sqlite.Explain(r.path, err)
}

// TaskTotal sums the results of a run's nodes in one task over a range of rounds.
type TaskTotal struct {
	Task        string
	Round       int // first round of the range
	Completions int
	RewardSum   float64
}

const taskTotalsSQL = `SELECT task, round / ?2 * ?2 AS first, sum(completions), coalesce(sum(reward_sum), 0.0) FROM task_rewards
WHERE run = ?1 GROUP BY task, first ORDER BY task, first`

// TaskTotals returns the rewards of a run by task, summed over nodes and ranges of rounds, by task and range. rounds is
// the length of a range; 0: one range of all rounds. Non-finite rewards count as 0.
func (r *Reader) TaskTotals(ctx context.Context, run string, rounds int) ([]TaskTotal, error) {
	if rounds <= 0 {
		rounds = math.MaxInt32
	}
	var totals []TaskTotal
	err := sqlite.Query(ctx, r.db, func(rows *sql.Rows) error {
		var x TaskTotal
		err := rows.Scan(&x.Task, &x.Round, &x.Completions, &x.RewardSum)
		totals = append(totals, x)
		return err
	}, taskTotalsSQL, run, rounds)
	return totals, sqlite.Explain(r.path, err)
}

// PeerTotal counts a node's use of one peer's rollouts over a run.
type PeerTotal struct {
	Node, Peer                                string
	Available, Rejected, Filtered, Used, Late int // Late: rounds in which nothing arrived in time
}

const peerTotalsSQL = `SELECT node, peer, sum(available), sum(rejected), sum(filtered), sum(used), sum(late) FROM peers
WHERE run = ? GROUP BY node, peer ORDER BY length(node), node, length(peer), peer`

// PeerTotals returns the use of rollouts in a run, by node and peer, with node_2 before node_10.
func (r *Reader) PeerTotals(ctx context.Context, run string) ([]PeerTotal, error) {
	var totals []PeerTotal
	err := sqlite.Query(ctx, r.db, func(rows *sql.Rows) error {
		var x PeerTotal
		err := rows.Scan(&x.Node, &x.Peer, &x.Available, &x.Rejected, &x.Filtered, &x.Used, &x.Late)
		totals = append(totals, x)
		return err
	}, peerTotalsSQL, run)
	return totals, sqlite.Explain(r.path, err)
}

// MemorySample is a node's memory in one time slot of a run: the maximum within the slot.
type MemorySample struct {
	Node                                                 string
	Time                                                 float64 // start of the slot, Unix seconds
	RSSBytes, PeakRSSBytes, DeviceBytes, DevicePeakBytes int64
	PSSBytes, PeakPSSBytes                               int64 // 0: unknown
}

// Host returns the node's host memory, with the same preference as Node.Host: PSS if known, else RSS.
func (s MemorySample) Host() int64 {
	if s.PSSBytes > 0 {
		return s.PSSBytes
	}
	return s.RSSBytes
}

const memorySQL = `SELECT node, time / ?3 * ?3 AS slot, max(rss_bytes), max(peak_rss_bytes), max(device_bytes), max(device_peak_bytes), %s
FROM memory WHERE run = ?1 AND time >= ?2 / ?3 * ?3 GROUP BY node, slot ORDER BY slot, length(node), node`

// Memory returns the memory of a run's nodes from the slot of a time on, by time and node. slot is the length of a slot
// in seconds; 0: as recorded.
func (r *Reader) Memory(ctx context.Context, run string, from float64, slot int) ([]MemorySample, error) {
	shares, err := r.has(ctx, schemaShares)
	if err != nil {
		return nil, err
	}
	proportional := "0, 0"
	if shares {
		proportional = "ifnull(max(pss_bytes), 0), ifnull(max(peak_pss_bytes), 0)"
	}
	var samples []MemorySample
	err = sqlite.Query(ctx, r.db, func(rows *sql.Rows) error {
		var x MemorySample
		err := rows.Scan(&x.Node, &x.Time, &x.RSSBytes, &x.PeakRSSBytes, &x.DeviceBytes, &x.DevicePeakBytes, &x.PSSBytes, &x.PeakPSSBytes)
		samples = append(samples, x)
		return err
	}, fmt.Sprintf(memorySQL, proportional), run, int64(math.Ceil(from)), max(1, slot))
	return samples, sqlite.Explain(r.path, err)
}
