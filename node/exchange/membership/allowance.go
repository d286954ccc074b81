package membership

import (
	"time"
)

// groupFactor is how many workers' allowances all workers of one invitation share, for long-term use of the
// coordinator's disk and network. They share it because the invitation's holder decides how many workers to create.
const groupFactor = 8

// Bounds of the stream's use, in bytes, over the newest offerWindow rounds. The stream holds a gigabyte. A worker has a
// quota that grows with its nodes. All workers of one invitation also share a quota. An honest node's round is about 50
// kB, a tenth of the largest batch that the experiment allows.
const (
	workerQuota = 16 << 20
	nodeQuota   = 4 << 20 // or nodeBatches of the largest batch
	nodeBatches = 8
	groupQuota  = 512 << 20
)

// Bounds of a worker's reads of others' rollouts, in network bytes: a rate per second and a burst. They grow with the
// worker's nodes. The bounds of an invitation grow with the nodes of all its workers.
const (
	drawnRate, drawnBurst           = 2 << 20, 32 << 20
	nodeDrawnRate, nodeDrawnBurst   = 512 << 10, 8 << 20
	groupDrawnRate, groupDrawnBurst = 16 << 20, 256 << 20
	groupNodeDrawnRate              = 128 << 10
)

// quota counts the bytes that a worker or a group has in the stream, by round. Not safe for concurrent use.
type quota struct {
	rounds map[int]int64
	sum    int64
}

// held returns the bytes of the rounds from oldest on. It discards earlier rounds.
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

// group is the allowance that the workers of one invitation share.
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

// groupOf returns the worker's group, nil if its invitation is unknown. The caller holds mu.
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

// within takes n tokens from all buckets, or returns how long it takes until all have n. It skips nil buckets.
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

// room refuses a batch that would exceed the stream quota of the worker or of its invitation. The caller holds mu.
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
	r.warn(s, "room", "worker "+s.worker+" has its maximum of rollouts in the swarm and must wait")
	return &Refusal{Code: CodeRate, Message: "this worker has its maximum of stored rollouts. Try: again in a round", RetryAfter: fullRetry.Seconds()}
}

// fullRetry is how long a worker over its quota must wait.
const fullRetry = 30 * time.Second

// occupy records that a batch is in the stream. The caller holds mu.
func (r *AdmissionServer) occupy(s *session, offer Offer) {
	s.stored.add(offer.Round, len(offer.Data))
	if g := r.groupOf(s); g != nil {
		g.stored.add(offer.Round, len(offer.Data))
	}
}

// Drawn charges a worker's reads, in network bytes, to the allowances of the worker and of its invitation. It returns
// how long the worker must wait before it may read more, 0 if it needn't wait. Reads above the allowance count too.
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
		r.warn(s, "drawn", "worker "+s.worker+" reads more than its limit and must wait")
	}
	return wait
}

// groupNodes returns the number of nodes that the workers of an invitation have in the swarm. The caller holds mu.
func (r *AdmissionServer) groupNodes(invitation string) (n int) {
	for _, s := range r.sessions {
		if s.invitation == invitation {
			n += len(s.present())
		}
	}
	return n
}
