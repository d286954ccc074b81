package rlswarm

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"strings"

	"github.com/sapo-swarm/swarm/metrics/store"
)

// Kinds of records, from the most to the least trusted. The log has rewards with all their digits. Older versions of
// rl-swarm truncated rewards to integers in rewards/.
const (
	kindMetrics    = "metrics"    // my_reward of a round, in metrics.jsonl
	kindStages     = "stages"     // stage_reward of one stage, in metrics.jsonl
	kindRewards    = "rewards"    // reward, in rewards/round_R/stage_S/ID.json
	kindCumulative = "cumulative" // cumulative_reward, in cumulative_metrics.jsonl and metrics.jsonl
	kindAdaptive   = "adaptive"   // adaptive_J, in metrics.jsonl
	kindOther      = "other"      // rows without usable data
)

// row is a line of a log, or a file of rewards/.
type row struct {
	Timestamp   *number `json:"timestamp"`
	SubmittedAt *number `json:"submitted_at"`
	Round       *number `json:"round"`
	Stage       *number `json:"stage"`
	NodeID      *string `json:"node_id"`
	PeerID      *string `json:"peer_id"`

	Reward           *number `json:"reward"`
	MyReward         *number `json:"my_reward"`
	StageReward      *number `json:"stage_reward"`
	NumSamples       *number `json:"num_samples"`
	CumulativeReward *number `json:"cumulative_reward"`
	AdaptiveJ        *number `json:"adaptive_J"`
}

// record is the content of one row about a node's round.
type record struct {
	kind         string
	node         string
	round, stage int
	time         float64 // Unix seconds; 0: unknown
	value        float64 // reward summed over completions; for kindAdaptive J
	samples      int     // number of completions in the sum; 0: unknown
}

var roundFolder = regexp.MustCompile(`^round_[0-9]{1,9}$`)

// readRewards reads rewards/round_R/stage_S/*.json.
func (f *folder) readRewards(b *book) error {
	rounds, err := f.list("rewards")
	if err != nil {
		return err
	}
	for _, round := range rounds {
		if !roundFolder.MatchString(round) {
			f.skipUnlessHidden(path.Join("rewards", round))
			continue
		}
		stages, err := f.list(path.Join("rewards", round))
		if err != nil {
			return err
		}
		for _, stage := range stages {
			if err := f.readStage(b, round, path.Join("rewards", round, stage)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (f *folder) readStage(b *book, round, dir string) error {
	names, err := f.list(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		file := path.Join(dir, name)
		if !strings.HasSuffix(name, ".json") {
			f.skipUnlessHidden(file)
			continue
		}
		var r row
		ok, err := f.readJSON(file, maxSmallFile, &r)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		x, err := r.submitted()
		switch {
		case err != nil:
			f.report.problem(file, 0, err.Error())
		case fmt.Sprint("round_", x.round) != round:
			f.report.problem(file, 0, fmt.Sprintf("it belongs to round %d", x.round))
		default:
			if err := b.add(x); err != nil {
				return err
			}
		}
	}
	return nil
}

// skipUnlessHidden records an unexpected file name as a problem. It ignores files that operating systems leave behind
// (.DS_Store, desktop.ini, *.tmp).
func (f *folder) skipUnlessHidden(file string) {
	base := path.Base(file)
	if !strings.HasPrefix(base, ".") && base != "desktop.ini" && !strings.HasSuffix(base, ".tmp") {
		f.report.problem(file, 0, "not a file name of rl-swarm")
	}
}

// submitted converts a file of rewards/ to a record.
func (r *row) submitted() (record, error) {
	x, err := r.key()
	if err != nil {
		return x, err
	}
	if r.Reward == nil {
		return x, errors.New("it has no reward")
	}
	x.kind, x.value, x.time = kindRewards, float64(*r.Reward), moment(r.SubmittedAt)
	return x, nil
}

// logged converts a line of a log to a record.
func (r *row) logged() (record, error) {
	x, err := r.key()
	if err != nil {
		return x, err
	}
	x.time = moment(r.Timestamp)
	switch {
	case r.MyReward != nil:
		x.kind, x.value = kindMetrics, float64(*r.MyReward)
	case r.StageReward != nil:
		x.kind, x.value = kindStages, float64(*r.StageReward)
		if r.NumSamples != nil {
			if x.samples, err = r.NumSamples.whole("num_samples", 0, 1_000_000); err != nil {
				return x, err
			}
		}
	case r.CumulativeReward != nil:
		x.kind, x.value = kindCumulative, float64(*r.CumulativeReward)
	case r.AdaptiveJ != nil:
		j, err := r.AdaptiveJ.whole("adaptive_J", 0, 1_000_000)
		if err != nil {
			return x, err
		}
		x.kind, x.value = kindAdaptive, float64(j)
	default:
		x.kind = kindOther
	}
	return x, nil
}

// key returns a record with node, round and stage. Rows have a node_id, a peer_id or both; in rl-swarm both are equal.
func (r *row) key() (record, error) {
	var x record
	switch {
	case r.PeerID != nil:
		x.node = *r.PeerID
	case r.NodeID != nil:
		x.node = *r.NodeID
	}
	if err := checkNode(x.node); err != nil {
		return x, err
	}
	var err error
	if x.round, err = r.Round.whole("round", 0, maxRound); err != nil {
		return x, err
	}
	if r.Stage != nil {
		x.stage, err = r.Stage.whole("stage", 0, 1000)
	}
	return x, err
}

func checkNode(name string) error {
	if name == "" {
		return errors.New("it names no node")
	}
	if err := store.CheckName(name); err != nil {
		return fmt.Errorf("its node's name: %w", err)
	}
	return nil
}

// moment returns n if it is a time in this century, else 0.
func moment(n *number) float64 {
	if n == nil || !(*n > 946_684_800 && *n < 4_102_444_800) { // years 2000 to 2100
		return 0
	}
	return float64(*n)
}
