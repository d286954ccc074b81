package sharedir

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/sapo-swarm/swarm/node/exchange"
)

// rlSwarm is the part of an experiment's folder that nodes of Elrashid/rl-swarm use. It reads
// rollouts/round_R/stage_0/ID.json, the only stage that rl-swarm's nodes read. With Options.Compat it also writes
// rl-swarm's files.
type rlSwarm struct {
	tree   *tree // <shared>/experiments/<experiment>
	report *reporter

	mu     sync.Mutex
	looked time.Time
	there  bool // rl-swarm's nodes have written rollouts here
}

const (
	foreignRollouts = "rollouts"
	foreignPeers    = "peers"
	foreignState    = "state/current_state.json"
	foreignEvery    = 30 * time.Second // time between checks for rl-swarm's nodes
	maxForeign      = 32 << 20         // bytes of a rollouts file, which is indented JSON
	maxForeignNote  = 1 << 20          // bytes of a file of peers or state
	maxForeignIDs   = 1024
)

func newRLSwarm(dir string, report *reporter) *rlSwarm {
	return &rlSwarm{tree: newTree(dir), report: report}
}

// present reports whether rl-swarm's rollouts exist. A folder without them costs one listing per foreignEvery.
func (p *rlSwarm) present() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.there && time.Since(p.looked) >= foreignEvery {
		p.looked = time.Now()
		names, err := p.tree.list(foreignRollouts)
		p.there = err == nil && len(names) > 0
	}
	return p.there
}

// look adds the batches that rl-swarm's nodes among the missing peers have shared for a round.
func (p *rlSwarm) look(round int, collector *exchange.Collector) error {
	missing := collector.Missing()
	if len(missing) == 0 || !p.present() {
		return nil
	}
	for _, peer := range missing {
		if data, there := p.batch(peer, round); there {
			collector.Add(peer, data)
		}
	}
	return nil
}

// batch returns the batch of one of rl-swarm's nodes for a round, in exchange.Encode's format. It returns false if the
// file is incomplete, or if swarm wrote it for rl-swarm's nodes.
func (p *rlSwarm) batch(peer string, round int) (data []byte, there bool) {
	if !plain(peer, 64) || !p.present() {
		return nil, false
	}
	name := path.Join(foreignRound(round), peer+".json")
	text, err := p.tree.read(name, maxForeign)
	switch {
	case errors.Is(err, errPartial):
		return nil, false
	case errors.Is(err, fs.ErrInvalid):
		p.report.warn("predecessor "+peer, fmt.Sprintf("skipping what %s shared: %v", peer, err))
		return []byte{0xff}, true
	case err != nil:
		return nil, false // the next listing of the folder reports the error
	}
	batch, err := decodeForeign(text, peer, round)
	switch {
	case errors.Is(err, errPartial), errors.Is(err, errOurs):
		return nil, false
	case err == nil:
		data, err = exchange.Encode(batch)
	}
	if err != nil {
		p.report.warn("predecessor "+peer, fmt.Sprintf("skipping what %s shared for round %d: %v", peer, round, err))
		return []byte{0xff}, true
	}
	return data, true
}

// scan records the batches of rl-swarm's nodes that have arrived since the last scan. It looks only at the newest two
// rounds in the folder.
func (p *rlSwarm) scan(peers []string, arrivals *arrivals) error {
	if !p.present() {
		return nil
	}
	rounds, err := p.rounds()
	if err != nil {
		return err
	}
	for _, round := range rounds[max(0, len(rounds)-2):] {
		for _, peer := range peers {
			if arrivals.has(encode(peer), round) {
				continue
			}
			if _, there := p.batch(peer, round); there {
				arrivals.add(encode(peer), round, false)
			}
		}
	}
	return nil
}

// rounds lists the rounds that have rollouts, in order.
func (p *rlSwarm) rounds() ([]int, error) {
	names, err := p.tree.list(foreignRollouts)
	if err != nil {
		return nil, err
	}
	var rounds []int
	for _, name := range names {
		text, ok := strings.CutPrefix(name, "round_")
		if round, err := strconv.Atoi(text); ok && err == nil && round >= 0 && round <= maxRounds && strconv.Itoa(round) == text {
			rounds = append(rounds, round)
		}
	}
	slices.Sort(rounds)
	return rounds, nil
}

func foreignRound(round int) string {
	return path.Join(foreignRollouts, fmt.Sprintf("round_%d", round), "stage_0")
}

// Foreign lists rl-swarm's nodes in an experiment's folder: those that registered to train, and those that shared
// rollouts in the newest two rounds. It excludes swarm's own nodes. Add them as members with trust by key
// (protocol.TrustKey).
func Foreign(dir, run string) ([]string, error) {
	p := newRLSwarm(dir, nil)
	ours, err := writers(baseOf(dir), run)
	if err != nil {
		return nil, explain(dir, err)
	}
	found := map[string]bool{}
	names, err := p.tree.list(foreignPeers)
	if err != nil {
		return nil, explain(dir, err)
	}
	for _, name := range names {
		if id, ok := strings.CutSuffix(name, ".json"); ok && p.trains(name, id) {
			found[id] = true
		}
	}
	rounds, err := p.rounds()
	if err != nil {
		return nil, explain(dir, err)
	}
	for _, round := range rounds[max(0, len(rounds)-2):] {
		names, err := p.tree.list(foreignRound(round))
		if err != nil {
			return nil, explain(dir, err)
		}
		for _, name := range names {
			if id, ok := strings.CutSuffix(name, ".json"); ok && plain(id, 64) {
				found[id] = true
			}
		}
	}
	var ids []string
	for id := range found {
		if !ours[encode(id)] {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids[:min(len(ids), maxForeignIDs)], nil
}

// trains reports whether a file of peers/ belongs to an rl-swarm node that trains. rl-swarm's coordinator does not
// train.
func (p *rlSwarm) trains(name, id string) bool {
	var peer struct {
		ID      string `json:"peer_id"`
		Role    string `json:"node_role"`
		Program string `json:"program"`
	}
	if !plain(id, 64) || p.readJSON(path.Join(foreignPeers, name), &peer) != nil {
		return false
	}
	return peer.ID == id && peer.Role != "coordinator" && peer.Program == ""
}

// writers returns the encoded names of the nodes under which swarm's processes wrote.
func writers(t *tree, run string) (map[string]bool, error) {
	names, err := t.list(path.Join(runPath(run), livesPart))
	if err != nil {
		return nil, err
	}
	ours := make(map[string]bool)
	for _, name := range names {
		if e, ok := parseName(name); ok {
			node, _, _ := strings.Cut(e.stem, "-")
			ours[node] = true
		}
	}
	return ours, nil
}
