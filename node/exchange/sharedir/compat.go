package sharedir

import (
	"bytes"
	"crypto/md5" //nolint:gosec // rl-swarm's name of a question
	"encoding/json"
	"fmt"
	"math/big"
	"path"
	"time"

	"github.com/sapo-swarm/swarm/internal/pythonjson"
	"github.com/sapo-swarm/swarm/node/exchange"
)

// register writes peers/NODE.json, by which rl-swarm's nodes learn of a node. If leads is true, it also writes the
// state that they wait for.
func (p *rlSwarm) register(node string, leads bool) error {
	if !plain(node, 64) {
		return fmt.Errorf("node name %q is not allowed with rl-swarm's nodes. Try: a name of letters, digits, '_' and '-'", node)
	}
	var known map[string]any
	name := path.Join(foreignPeers, node+".json")
	if p.readJSON(name, &known) != nil {
		err := p.writeJSON(foreignPeers, node+".json", map[string]any{
			"peer_id": node, "registered_at": now(), "node_role": "worker", "program": program,
		})
		if err != nil {
			return err
		}
	} else if known["program"] != program {
		return fmt.Errorf("an rl-swarm node is registered as %s (%s). Try: another --node-id", node, path.Join(p.tree.path, name))
	}
	if leads {
		return p.lead(0)
	}
	return nil
}

// lead advances state/current_state.json, which rl-swarm's nodes follow, to a round. It does nothing if rl-swarm's own
// coordinator is already there or further.
func (p *rlSwarm) lead(round int) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	state := map[string]any{}
	_ = p.readJSON(foreignState, &state) // missing or incomplete: then it is written again
	if present, ok := state["round"].(float64); ok && present >= float64(round) {
		return nil
	}
	state["round"], state["stage"], state["updated_at"], state["updated_by"] = round, 0, now(), "coordinator"
	if _, there := state["created_at"]; !there {
		state["created_at"] = state["updated_at"]
	}
	return p.writeJSON(path.Dir(foreignState), path.Base(foreignState), state)
}

// publish writes a batch in rl-swarm's format.
func (p *rlSwarm) publish(batch exchange.Batch, leads bool) error {
	file := foreignFile{PeerID: batch.Node, Round: &batch.Round, Timestamp: now(), Program: program, Rollouts: map[string][]foreignPayload{}}
	for _, r := range batch.Rollouts {
		payload := foreignPayload{Actions: []string{}, Metadata: json.RawMessage("null")}
		payload.WorldState.Environment = foreignQuestion{Question: r.Question, Answer: r.Answer, Metadata: r.Metadata}
		for _, c := range r.Completions {
			payload.Actions = append(payload.Actions, c.Text)
		}
		key := batchID(r.Question)
		file.Rollouts[key] = append(file.Rollouts[key], payload)
	}
	if err := p.writeJSON(foreignRound(batch.Round), batch.Node+".json", file); err != nil {
		return err
	}
	if leads {
		return p.lead(batch.Round)
	}
	return nil
}

// batchID returns rl-swarm's number of a question. rl-swarm's nodes drop a rollout with a wrong number.
func batchID(question string) string {
	sum := md5.Sum([]byte(question)) //nolint:gosec // see the import
	return new(big.Int).SetBytes(sum[:]).String()
}

func now() float64 { return float64(time.Now().UnixMicro()) / 1e6 }

func (p *rlSwarm) readJSON(name string, into any) error {
	text, err := p.tree.read(name, maxForeignNote)
	if err != nil {
		return err
	}
	return json.Unmarshal(pythonjson.Null(text), into)
}

// writeJSON replaces a file in place. rl-swarm's readers retry an incomplete file.
func (p *rlSwarm) writeJSON(dir, name string, value any) error {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(value); err != nil {
		return err
	}
	return p.tree.replace(dir, name, b.Bytes())
}
