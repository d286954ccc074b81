package sharedir

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/sapo-swarm/swarm/internal/pythonjson"
	"github.com/sapo-swarm/swarm/node/exchange"
)

// errOurs reports that swarm wrote a file in rl-swarm's format.
var errOurs = errors.New("written by swarm")

// program marks the files that swarm writes in rl-swarm's format. rl-swarm's nodes ignore the field.
const program = "swarm"

// foreignFile is a rollouts file of rl-swarm. It maps a batch id, the MD5 of the question as a decimal number, to a
// list with one payload.
type foreignFile struct {
	PeerID    string                      `json:"peer_id"`
	Round     *int                        `json:"round"`
	Stage     int                         `json:"stage"`
	Timestamp float64                     `json:"timestamp"`
	Program   string                      `json:"program,omitempty"`
	Rollouts  map[string][]foreignPayload `json:"rollouts"`
}

type foreignPayload struct {
	WorldState foreignWorld    `json:"world_state"`
	Actions    []string        `json:"actions"` // completions
	Metadata   json.RawMessage `json:"metadata"`
}

type foreignWorld struct {
	Environment foreignQuestion `json:"environment_states"`
	Opponent    json.RawMessage `json:"opponent_states"`
	Personal    json.RawMessage `json:"personal_states"`
}

type foreignQuestion struct {
	Question string          `json:"question"`
	Answer   *string         `json:"answer"`
	Metadata json.RawMessage `json:"metadata"`
}

// decodeForeign parses a rollouts file. It returns errPartial for incomplete JSON, errOurs for swarm's own file, or an
// error that describes the fault. The rollouts are sorted by batch id, because a JSON object has no order. rl-swarm
// does not record whether a completion ended by itself, so every completion counts as terminated.
func decodeForeign(text []byte, peer string, round int) (exchange.Batch, error) {
	text = pythonjson.Null(text)
	if !json.Valid(text) {
		return exchange.Batch{}, errPartial
	}
	var file foreignFile
	if err := json.Unmarshal(text, &file); err != nil {
		return exchange.Batch{}, fmt.Errorf("it is not a rollouts file: %.200s", err)
	}
	switch {
	case file.Program == program:
		return exchange.Batch{}, errOurs
	case file.PeerID != peer:
		return exchange.Batch{}, fmt.Errorf("it is signed as %.40q", file.PeerID)
	case file.Round == nil || *file.Round != round:
		return exchange.Batch{}, fmt.Errorf("it is signed as another round")
	}
	batch := exchange.Batch{Version: exchange.Version, Node: peer, Round: round}
	for _, key := range sortedKeys(file.Rollouts) {
		for _, payload := range file.Rollouts[key] {
			if len(batch.Rollouts) >= exchange.MaxRollouts {
				return exchange.Batch{}, fmt.Errorf("it has more than %d rollouts", exchange.MaxRollouts)
			}
			batch.Rollouts = append(batch.Rollouts, payload.rollout())
		}
	}
	return batch, nil
}

func (p foreignPayload) rollout() exchange.Rollout {
	q := p.WorldState.Environment
	r := exchange.Rollout{Question: q.Question, Answer: q.Answer, Metadata: q.Metadata}
	if len(bytes.TrimSpace(r.Metadata)) == 0 || string(bytes.TrimSpace(r.Metadata)) == "null" {
		r.Metadata = json.RawMessage(`{}`)
	}
	var compact bytes.Buffer // rl-swarm indents its files
	if json.Compact(&compact, r.Metadata) == nil {
		r.Metadata = compact.Bytes()
	}
	for _, text := range p.Actions {
		r.Completions = append(r.Completions, exchange.Completion{Text: text, Terminated: true})
	}
	return r
}

func sortedKeys(rollouts map[string][]foreignPayload) []string {
	keys := make([]string, 0, len(rollouts))
	for key := range rollouts {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}
