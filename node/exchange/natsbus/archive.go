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
	wantEvery = 2 * time.Second // minimum time between two lookups of a batch
	wantQueue = 256             // pending requests; those beyond it are dropped, and the nodes ask again
)

// Find returns the batch that a node shared in a round, from the node's journal. It returns nil if the journal has none
// yet. It is called only for nodes of the coordinator's host.
type Find func(node string, round int) ([]byte, error)

// archive answers requests for missing batches: it restores batches that the stream has lost or dropped. The nodes'
// journals are the authoritative record. The stream is a cache of them. One goroutine owns an archive.
type archive struct {
	server   *Server
	run      string
	subjects subjects
	nodes    map[string]string // by token
	find     Find
	answered map[string]time.Time // by subject, within the last wantEvery
}

func newArchive(s *Server, run string, subjects subjects, nodes []string, find Find) *archive {
	a := &archive{server: s, run: run, subjects: subjects, nodes: map[string]string{}, find: find, answered: map[string]time.Time{}}
	for _, node := range nodes {
		a.nodes[token(node)] = node
	}
	return a
}

// serve answers one request after the other until ctx ends.
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

// answer handles one request. It skips batches that no node can have shared, and batches that it has just answered.
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

// store writes a batch to the stream. If the stream claims to have one, that batch must be readable. Otherwise the
// stream is broken.
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
	reason := fmt.Errorf("the stream has it but cannot deliver it: %w", err)
	a.server.poke(unreadable + reason.Error())
	return reason
}

// unreadable begins the reason of a problem that a write to another subject would not reveal.
const unreadable = "unreadable: "

// damaged reports whether a stream counts a batch that it can't find. An intact stream that has the batch reports a
// wrong last sequence instead.
func damaged(reason string) bool {
	return strings.HasPrefix(reason, unreadable) || strings.Contains(reason, "maximum messages per subject")
}

// full reports whether a stream refuses batches because it has reached its size limit.
func full(reason string) bool { return strings.Contains(reason, "maximum bytes") }
