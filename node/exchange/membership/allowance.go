package membership

import (
	"time"
)

// All workers that came with one invitation have groupFactor times the allowance of one between them, of what costs the
// coordinator's disk and network in the long run: the number of workers that are made of an invitation is its holder's
// to choose.
const groupFactor = 8

// What rollouts may take of the stream, which holds a gigabyte, in bytes, counted over the newest offerWindow rounds: a
// worker's, with more for each of its nodes, and those of all workers that came with one invitation. An honest node's
// round is some 50 kB, and a tenth of the largest batch that the experiment allows.
const (
	workerQuota = 16 << 20
	nodeQuota   = 4 << 20 // or nodeBatches of the largest batch
	nodeBatches = 8
	groupQuota  = 512 << 20
)

// What a worker may read, a second and at once: of others' rollouts, as they go over the network. Each of its nodes
// adds to it, and so do the nodes of all workers that came with one invitation.
const (
	drawnRate, drawnBurst           = 2 << 20, 32 << 20
	nodeDrawnRate, nodeDrawnBurst   = 512 << 10, 8 << 20
	groupDrawnRate, groupDrawnBurst = 16 << 20, 256 << 20
	groupNodeDrawnRate              = 128 << 10
)

// quota is how much of what a worker or a group shared is in the stream, by round. Not safe for concurrent use.
type quota struct {
	rounds map[int]int64
	sum    int64
}

// held is how many bytes are there of the rounds from oldest on. It forgets the others.
func (q *quota) held(oldest int) int64 {
	for round, bytes := range q.rounds {
		if round < oldest {
			q.sum -= bytes
			delete(q.rounds, round)
		}
	}
	return q.sum
}

func (q *quota) add(round int, bytes int) {
	if q.rounds == nil {
		q.rounds = map[int]int64{}
	}
	q.rounds[round] += int64(bytes)
	q.sum += int64(bytes)
}

// group is what the workers of one invitation have between them.
type group struct {
	bytes, events, kept, drawn bucket
	stored                     quota
}

func newGroup() *group {
	return &group{
		bytes:  newBucket(groupFactor*byteRate, groupFactor*byteBurst),
		events: newBucket(groupFactor*eventRate, groupFactor*eventBurst),
		kept:   newBucket(groupFactor*keptRate, groupFactor*keptBurst),
		drawn:  newBucket(groupDrawnRate, groupDrawnBurst),
	}
}

// groupOf is the worker's group; nil: it came with no known invitation, or is trusted. mu is held.
func (r *AdmissionServer) groupOf(s *session) *group {
	if s.invitation == "" {
		return nil
	}
	g := r.groups[s.invitation]
	if g == nil {
		g = newGroup()
		r.groups[s.invitation] = g
	}
	return g
}

// within takes n from a worker's bucket and from its group's, or says how long it is until both have as much.
func within(now time.Time, n float64, buckets ...*bucket) (wait time.Duration) {
	for _, b := range buckets {
		if b != nil {
			wait = max(wait, b.wait(now, n))
		}
	}
	if wait > 0 {
		return wait
	}
	for _, b := range buckets {
		if b != nil {
			b.take(now, n)
		}
	}
	return 0
}

// room refuses a batch for which the worker, or all who came with its invitation, have no room left in the stream. mu
// is held.
func (r *AdmissionServer) room(s *session, offer Offer) *Refusal {
	if r.o.Trusted {
		return nil
	}
	oldest, size := r.lineup.newest-offerWindow, int64(len(offer.Data))
	full := s.stored.held(oldest)+size > workerQuota+max(nodeQuota, nodeBatches*int64(r.gate.size()))*int64(len(s.present()))
	if g := r.groupOf(s); g != nil && !full {
		full = g.stored.held(oldest)+size > groupQuota
	}
	if !full {
		return nil
	}
	r.warn(s, "room", "worker "+s.worker+" has its maximum of rollouts in the swarm: it must wait")
	return &Refusal{Code: CodeRate, Message: "as many of this worker's rollouts are kept as may be. Try: again in a round", RetryAfter: fullRetry.Seconds()}
}

// fullRetry is how long one waits who has no room.
const fullRetry = 30 * time.Second

// occupy notes that a batch is in the stream. mu is held.
func (r *AdmissionServer) occupy(s *session, offer Offer) {
	s.stored.add(offer.Round, len(offer.Data))
	if g := r.groupOf(s); g != nil {
		g.stored.add(offer.Round, len(offer.Data))
	}
}

// Drawn takes what a worker has read, in bytes as they went over the network, from its allowance and from that of all
// who came with its invitation. It returns how long the worker must wait before it may read more; 0: not at all. What
// was read counts even where it is above the allowance.
func (r *AdmissionServer) Drawn(worker string, bytes int64) time.Duration {
	r.lock()
	defer r.flush()
	s := r.sessions[worker]
	if s == nil || r.o.Trusted {
		return 0
	}
	nodes := len(s.present())
	s.rates.drawn.resize(max(drawnRate, nodeDrawnRate*float64(nodes)), drawnBurst+nodeDrawnBurst*float64(nodes))
	buckets := []*bucket{&s.rates.drawn}
	if g := r.groupOf(s); g != nil {
		all := float64(r.groupNodes(s.invitation))
		g.drawn.resize(max(groupDrawnRate, groupNodeDrawnRate*all), max(groupDrawnBurst, nodeDrawnBurst*all))
		buckets = append(buckets, &g.drawn)
	}
	wait := time.Duration(0)
	for _, b := range buckets {
		wait = max(wait, b.charge(r.o.Now(), float64(bytes)))
	}
	if wait > 0 {
		r.warn(s, "drawn", "worker "+s.worker+" reads above its limit: it must wait")
	}
	return wait
}

// groupNodes is how many nodes the workers of an invitation have in the swarm. mu is held.
func (r *AdmissionServer) groupNodes(invitation string) (n int) {
	for _, s := range r.sessions {
		if s.invitation == invitation {
			n += len(s.present())
		}
	}
	return n
}
