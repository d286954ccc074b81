package natsbus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sapo-swarm/swarm/node/exchange"
)

const (
	recentPatience = 20 * time.Second // how long Recent retries while the broker restarts
	recentAtOnce   = 8                // peers that are read at a time
	keptMarks      = 1024             // own rounds kept with their sequences
)

// Recent returns what the peers shared recently; see Exchange. The stream's sequences give the order. A batch's age is
// the number of own batches after it. Batches that an earlier call fetched are not fetched again.
func (b *Bus) Recent(ctx context.Context, window exchange.Window) ([]*exchange.Received, error) {
	ctx, end, err := b.calls.Begin(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	b.arrivals.call.Lock()
	defer b.arrivals.call.Unlock()
	patience := recentPatience
	if b.worker != "" {
		patience = 0
	}
	start := time.Now()
	var found []*exchange.Received
	err = b.persist(ctx, func() (bool, error) {
		found, err = b.recent(ctx, window)
		return b.mayAsk(err) && time.Since(start) < patience, err
	})
	if err != nil {
		return nil, fmt.Errorf("recent rollouts of round %d: %w", window.Round, err)
	}
	return found, nil
}

// arrivals records the order in which batches arrived.
type arrivals struct {
	call sync.Mutex // one Recent at a time

	mu     sync.Mutex
	joined uint64         // the stream's last sequence when this node joined
	marks  map[int]uint64 // sequences of own rounds
	newest uint64         // highest sequence in marks
	peers  map[string]*history
}

// history caches a peer's batches while the peer is requested: the newest limit batches after since.
type history struct {
	since   uint64
	limit   int
	next    uint64 // sequence to read from
	batches []arrival
}

type arrival struct {
	sequence uint64
	received *exchange.Received
}

func newArrivals() arrivals {
	return arrivals{marks: map[int]uint64{}, peers: map[string]*history{}}
}

// note records the sequence of an own batch. Sequences only grow. If one is lower, the stream was created again, and
// note discards all earlier records.
func (a *arrivals) note(round int, sequence uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if sequence <= a.newest || sequence <= a.joined {
		a.joined, a.newest = 0, 0
		clear(a.marks)
		clear(a.peers)
	}
	a.learn(round, sequence)
}

// learn records the sequence of an own batch that was found in the stream. The caller holds mu.
func (a *arrivals) learn(round int, sequence uint64) {
	a.marks[round] = sequence
	a.newest = max(a.newest, sequence)
	if len(a.marks) > keptMarks {
		delete(a.marks, slices.Min(slices.Collect(maps.Keys(a.marks))))
	}
}

// unknown lists the own rounds of a window without a recorded sequence.
func (a *arrivals) unknown(window exchange.Window) []int {
	a.mu.Lock()
	defer a.mu.Unlock()
	var rounds []int
	for round := max(0, window.Round-window.Staleness); round <= window.Round; round++ {
		if _, known := a.marks[round]; !known {
			rounds = append(rounds, round)
		}
	}
	return rounds
}

// since returns the sequence after which a window begins.
func (a *arrivals) since(window exchange.Window) uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	if sequence, shared := a.marks[window.Round-window.Staleness]; shared {
		return sequence
	}
	since := a.joined // of this process; own batches of an earlier process are older
	for round := max(0, window.Round-window.Staleness); round <= window.Round; round++ {
		if sequence, shared := a.marks[round]; shared {
			since = min(since, sequence)
		}
	}
	return since
}

// age returns how many of the caller's rounds ago a sequence arrived.
func (a *arrivals) age(window exchange.Window, sequence uint64) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	for round := max(0, window.Round-window.Staleness+1); round <= window.Round; round++ {
		if mark, shared := a.marks[round]; shared && mark > sequence {
			return window.Round - round + 1
		}
	}
	return 0
}

// history returns a peer's cached history if it covers the window, or an empty one.
func (a *arrivals) history(peer string, since uint64, limit int) *history {
	a.mu.Lock()
	defer a.mu.Unlock()
	h := a.peers[peer]
	if h == nil || since < h.since || limit > h.limit {
		h = &history{next: since + 1}
		a.peers[peer] = h
	}
	return h
}

// retain drops the histories of other peers.
func (a *arrivals) retain(peers []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	asked := make(map[string]bool, len(peers))
	for _, peer := range peers {
		asked[peer] = true
	}
	maps.DeleteFunc(a.peers, func(peer string, _ *history) bool { return !asked[peer] })
}

func (b *Bus) recent(ctx context.Context, window exchange.Window) ([]*exchange.Received, error) {
	if err := b.findMarks(ctx, b.arrivals.unknown(window)); err != nil {
		return nil, err
	}
	b.arrivals.retain(window.Peers)
	since := b.arrivals.since(window)
	limit := max(window.Limit, 1)
	group, within := errgroup.WithContext(ctx)
	group.SetLimit(recentAtOnce)
	histories := make([]*history, len(window.Peers))
	for i, peer := range window.Peers {
		if slices.Contains(window.Peers[:i], peer) {
			continue
		}
		histories[i] = b.arrivals.history(peer, since, limit)
		group.Go(func() error { return b.follow(within, histories[i], peer, since, limit) })
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	var found []*exchange.Received
	for _, h := range histories {
		if h == nil {
			continue
		}
		for _, batch := range h.after(since, limit) {
			received := *batch.received
			received.Age = b.arrivals.age(window, batch.sequence)
			found = append(found, &received)
		}
	}
	return found, nil
}

// findMarks looks up the sequences of own rounds that this process has not recorded.
func (b *Bus) findMarks(ctx context.Context, rounds []int) error {
	subjects := make([]string, len(rounds))
	byName := make(map[string]int, len(rounds))
	for i, round := range rounds {
		subjects[i] = b.subjects.rollouts(round, b.node)
		byName[subjects[i]] = round
	}
	return b.lasts(ctx, subjects, 0, func(found stored) {
		b.arrivals.mu.Lock()
		defer b.arrivals.mu.Unlock()
		if round, asked := byName[found.subject]; asked {
			b.arrivals.learn(round, found.sequence)
		}
	})
}

// after returns the newest limit batches after a sequence, oldest first.
func (h *history) after(since uint64, limit int) []arrival {
	first, _ := slices.BinarySearchFunc(h.batches, since+1, func(a arrival, s uint64) int {
		if a.sequence < s {
			return -1
		}
		return 1
	})
	return h.batches[max(first, len(h.batches)-limit):]
}

// add records a batch that was read.
func (h *history) add(s subjects, peer string, found stored) {
	h.next = max(h.next, found.sequence+1)
	round, err := strconv.Atoi(s.roundToken(found.subject))
	if err != nil || round < 0 || !strings.HasSuffix(found.subject, "."+token(peer)) {
		return
	}
	h.batches = append(h.batches, arrival{found.sequence, exchange.Receive(found.data, peer, round)})
}

// follow reads the batches that a peer has shared since the last call. If that is more than limit batches, it reads the
// newest ones instead.
func (b *Bus) follow(ctx context.Context, h *history, peer string, since uint64, limit int) error {
	h.since, h.limit = since, limit
	h.next = max(h.next, since+1)
	h.batches = slices.Clone(h.after(since, limit))
	for read := 0; ; {
		before := h.next
		pending, err := b.fetch(ctx, query{Next: b.subjects.anyRound(peer), Sequence: h.next, Batch: limit, MaxBytes: readBytes}, func(found stored) {
			h.add(b.subjects, peer, found)
			read++
		})
		switch {
		case err != nil:
			return err
		case read+pending > limit:
			return b.newest(ctx, h, peer, since, limit)
		case pending == 0 && (h.next == before || !b.oneByOne.Load()):
			return nil
		case h.next == before:
			return errors.New("the server counts batches that it does not deliver")
		}
	}
}

// newest reads a peer's newest batches, going back from its last round, because there may be thousands.
func (b *Bus) newest(ctx context.Context, h *history, peer string, since uint64, limit int) error {
	var last stored
	if _, err := b.fetch(ctx, query{LastOne: b.subjects.anyRound(peer)}, func(found stored) { last = found }); err != nil {
		return err
	}
	round, err := strconv.Atoi(b.subjects.roundToken(last.subject))
	if err != nil {
		return nil // no batch, or an invalid subject
	}
	var subjects []string
	for r := max(0, round-limit+1); r <= round; r++ {
		subjects = append(subjects, b.subjects.rollouts(r, peer))
	}
	h.batches = nil
	if err := b.lasts(ctx, subjects, since+1, func(found stored) { h.add(b.subjects, peer, found) }); err != nil {
		return err
	}
	slices.SortFunc(h.batches, func(x, y arrival) int { return cmp.Compare(x.sequence, y.sequence) })
	return nil
}
