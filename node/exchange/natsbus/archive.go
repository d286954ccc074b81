package natsbus

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/sapo-swarm/swarm/node/exchange"
)

const (
	wantEvery = 2 * time.Second // a batch is looked up at most this often
	wantQueue = 256             // asked for and not yet looked up; what comes beyond is asked for again
)

// Find returns the batch that a node shared in a round, as the node's journal has it, or nil where it has none: the
// node has not got there yet. It is called for the run's own nodes only.
type Find func(node string, round int) ([]byte, error)

// archive answers wants: what the stream has lost, or has dropped for its age, it stores there again, as the owner did.
// The nodes' journals are the truth, the stream is a cache of them. One goroutine owns it.
type archive struct {
	server   *Server
	run      string
	subjects subjects
	nodes    map[string]string // by token
	find     Find
	answered map[string]time.Time // by subject, of the last wantEvery
}

func newArchive(s *Server, run string, subjects subjects, nodes []string, find Find) *archive {
	a := &archive{server: s, run: run, subjects: subjects, nodes: map[string]string{}, find: find, answered: map[string]time.Time{}}
	for _, node := range nodes {
		a.nodes[token(node)] = node
	}
	return a
}

// serve answers one want after the other until ctx ends.
func (a *archive) serve(ctx context.Context, wants <-chan string) {
	for {
		select {
		case <-ctx.Done():
			return
		case subject := <-wants:
			if err := a.answer(ctx, subject); err != nil && ctx.Err() == nil {
				a.server.logger.Warn("shared rollouts not served again", "run", a.run, "error", err)
			}
		}
	}
}

// answer serves one want. It skips batches that no node can have shared and those that were just answered.
func (a *archive) answer(ctx context.Context, subject string) error {
	round, nodeToken, ok := a.subjects.wanted(subject)
	node, known := a.nodes[nodeToken]
	if !ok || !known {
		return nil
	}
	now := time.Now()
	for other, at := range a.answered {
		if now.Sub(at) >= wantEvery {
			delete(a.answered, other)
		}
	}
	if _, just := a.answered[subject]; just || len(a.answered) >= wantQueue {
		return nil
	}
	a.answered[subject] = now
	data, err := a.find(node, round)
	if err != nil {
		return fmt.Errorf("round %d of %s: %w", round, node, err)
	}
	if data == nil {
		return nil
	}
	batch, err := exchange.Decode(data, node, round)
	if err == nil {
		data, err = exchange.Encode(batch)
	}
	if err != nil {
		return fmt.Errorf("round %d of %s: %w", round, node, err)
	}
	if err := a.store(ctx, round, node, data); err != nil {
		return fmt.Errorf("round %d of %s: %w", round, node, err)
	}
	return nil
}

// store puts a batch into the stream. Where the stream claims to have one it must be readable, or else the stream is
// broken.
func (a *archive) store(ctx context.Context, round int, node string, data []byte) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	subject := a.subjects.rollouts(round, node)
	_, err := a.server.js.Publish(ctx, subject, data, jetstream.WithExpectLastSequencePerSubject(0))
	var refused *jetstream.APIError
	if err == nil {
		a.server.logger.Debug("served shared rollouts from the journal", "run", a.run, "node", node, "round", round)
		return nil
	}
	if !errors.As(err, &refused) || refused.ErrorCode != jetstream.JSErrCodeStreamWrongLastSequence {
		a.server.poke(err.Error())
		return err
	}
	stream, err := a.server.js.Stream(ctx, a.subjects.stream)
	if err != nil {
		a.server.poke(err.Error())
		return err
	}
	message, err := stream.GetLastMsgForSubject(ctx, subject)
	if err == nil && len(message.Data) > 0 || ctx.Err() != nil {
		return nil
	}
	reason := fmt.Errorf("the stream has it but can't give it: %w", err)
	a.server.poke(unreadable + reason.Error())
	return reason
}

// unreadable begins the reason of a trouble that a write to another subject would not show.
const unreadable = "unreadable: "

// damaged tells whether a stream counts a batch that it can't find: to one that expects the subject to be free it says
// otherwise that the sequence is wrong.
func damaged(reason string) bool {
	return strings.HasPrefix(reason, unreadable) || strings.Contains(reason, "maximum messages per subject")
}

// full tells whether a stream refuses batches because it holds as much as it may.
func full(reason string) bool { return strings.Contains(reason, "maximum bytes") }
