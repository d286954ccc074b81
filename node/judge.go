package node

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"

	"github.com/sapo-swarm/swarm/node/exchange"
	"github.com/sapo-swarm/swarm/node/journal"
	"github.com/sapo-swarm/swarm/node/protocol"
	"github.com/sapo-swarm/swarm/node/task"
)

// Reasons why a rollout does not match its sender's question stream.
var (
	errForeignQuestion = errors.New("its question is not from its sender's stream")
	errForeignAnswer   = errors.New("its answer key does not match its question")
	errForeignMetadata = errors.New("its metadata do not match its question")
	errForeignIndex    = errors.New("more questions than a round may have")
)

// verdict is the result of checking one batch.
type verdict struct {
	node     string
	groups   []group // with rewards computed here
	rejected int     // number of rollouts
	reason   string  // of the last rejected rollout
}

// judge checks received rollouts against their senders' question streams, encodes them and scores them. It leaves
// out rollouts that the node has trained on. In async mode it keeps the verdict of a batch that arrives again.
func (n *Node) judge(round int, received []*exchange.Received) []verdict {
	byKey := map[string]bool{}
	members, _ := n.Host.Members()
	for _, m := range members {
		if m.Trust == protocol.TrustKey {
			byKey[m.Node] = true
		}
	}
	async := n.Config.Async()
	n.rollouts.begin(round, n.staleness())
	known := map[journal.External]verdict{}
	var list []verdict
	for _, r := range received {
		if r == nil {
			continue
		}
		batch := journal.External{Node: r.Node, Round: r.Round}
		found, again := n.rollouts.judged[batch]
		if !again {
			found = n.judgeBatch(r, byKey[r.Node])
		}
		if async {
			known[batch] = found
		}
		found.groups = n.rollouts.fresh(found.groups)
		for i := range found.groups {
			found.groups[i].age = r.Age
		}
		list = append(list, found)
	}
	if async {
		n.rollouts.judged = known
	}
	return list
}

// judgeBatch checks one batch. After one forged rollout it refuses the rest of the batch, because each search for a
// question costs time.
func (n *Node) judgeBatch(r *exchange.Received, byKey bool) verdict {
	found := verdict{node: r.Node}
	var forged error
	for i, rollout := range r.Rollouts {
		item, err := task.Item{Question: rollout.Question, Answer: rollout.Answer, Metadata: rollout.Metadata}, forged
		if err == nil && !byKey {
			item, err = n.regenerate(r.Node, r.Round, i, rollout)
			forged = err
		}
		var g group
		if err == nil {
			g, err = n.external(item, rollout)
		}
		if err != nil {
			n.Logger.Debug("rollout refused", "round", r.Round, "peer", r.Node, "index", i, "reason", err)
			found.rejected, found.reason = found.rejected+1, err.Error()
			continue
		}
		g.origin = journal.External{Node: r.Node, Round: r.Round, Index: i}
		n.reward(&g)
		found.groups = append(found.groups, g)
	}
	return found
}

// regenerate draws again, from the sender's stream, the question that a rollout claims to answer. It returns an
// error if the stream does not have that question. The sender chooses the try: its context length and its held-out
// set decide which tries it skips. A forged rollout therefore costs redraws draws, a true one as many as the sender
// needed.
func (n *Node) regenerate(node string, round, index int, r exchange.Rollout) (task.Item, error) {
	if index >= n.Config.MostOwn() {
		return task.Item{}, errForeignIndex
	}
	reason := errForeignQuestion
	for try := range redraws {
		item, err := n.question(node, round, index, try)
		switch {
		case err != nil:
			return task.Item{}, err
		case item.Question != r.Question:
		case !sameAnswer(item.Answer, r.Answer):
			reason = errForeignAnswer
		case !sameObject(item.Metadata, r.Metadata):
			reason = errForeignMetadata
		default:
			return item, nil
		}
	}
	return task.Item{}, reason
}

func sameAnswer(a, b *string) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}

// sameObject reports whether two JSON objects are equal, ignoring white space, escapes and the order of keys.
func sameObject(a, b json.RawMessage) bool {
	if bytes.Equal(a, b) {
		return true
	}
	first, err := decodeObject(a)
	if err != nil {
		return false
	}
	second, err := decodeObject(b)
	return err == nil && reflect.DeepEqual(first, second)
}

func decodeObject(data json.RawMessage) (map[string]any, error) {
	if len(data) == 0 {
		return map[string]any{}, nil
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	object := map[string]any{}
	err := decoder.Decode(&object)
	return object, err
}
