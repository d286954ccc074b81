package membership

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/node/protocol"
)

const (
	maxMembers    = 16 << 10
	recordedLimit = 10 * time.Second
)

// AdmissionOptions configure an AdmissionServer. Fields without a comment must be set.
type AdmissionOptions struct {
	Run, Experiment, Version string
	Config                   json.RawMessage // as in Welcome
	Cfg                      configs.Config
	Inputs                   map[string]string // may be nil
	Local                    []protocol.Member // nodes on the coordinator's host; may be empty
	Rounds                   int
	Registry                 *Registry     // nil: anyone with access to the transport may join, under any free name
	Trusted                  bool          // the workers are the owner's own, or friends with a common folder: they have no rate limits
	Silence                  time.Duration // after this time without a sign of life, the barrier doesn't wait for a worker's nodes; 0: SilentAfter

	// Store shares a batch with the swarm. When it returns nil, the batch is durable. Repeats change nothing.
	Store func(ctx context.Context, batch Offer) error

	// Deliver records a worker's events. When it returns nil, they are durable in the database. events corresponds to
	// d.Events, numbered from d.First. An event of TypeRelease without a node, which changes nothing, replaces a
	// rejected event. The server calls Deliver for one delivery of a worker at a time.
	Deliver func(ctx context.Context, worker string, d Delivery, events []event.Event) error

	// Acked returns the number of the last event of an outbox that the database has.
	Acked func(ctx context.Context, worker, outbox string) (int64, error)

	// Recorded returns, by node, the first round that the database lacks, and the rounds that have an evaluation. It
	// has all earlier rounds since the node's first. See store.Reader.
	Recorded func(ctx context.Context) (recorded map[string]int, evaluated map[string][]int, err error)

	// Report receives events about workers that come and go, and warnings, in order. It must not call the
	// AdmissionServer, except Members and Workers.
	Report func(event.Event)

	// Keep returns once everything reported before is on disk. The server answers a join only after Keep returns. Nil:
	// joins are not made durable.
	Keep func(ctx context.Context) error

	Expel  func(worker string) // may be nil; called when a worker is revoked or banned, to close its connections
	Now    func() time.Time    // nil: time.Now
	Logger *slog.Logger
}

// KnownMember is a worker's node of an earlier attempt at the run. It keeps its assignment.
type KnownMember struct {
	Node, Worker string
	From         int
}

// WorkerStatus is the state of a worker.
type WorkerStatus struct {
	Worker, Host, Device, Version string
	State                         event.State // one of event.Worker*; away until the first sign of life
	Nodes                         []NodeStatus
	LastSeen                      float64 // Unix seconds; 0: not seen by this process
	Offered                       int64   // batches, like Refused
	Refused                       int64
	Bytes                         int64   // of accepted offers and events
	Dropped                       int64   // events with impossible content
	Reason                        string  // of the newest refusal or drop, or why the worker's membership ended
	ClockOffset                   float64 // seconds added to the worker's times; 0: its clock is right
}

// NodeStatus is the state of a worker's node.
type NodeStatus struct {
	Node    string
	Worker  string
	From    int
	Round   int // that it claims to work on
	Trusted int // the same, but at most the one after Shared; as claimed through a folder
	State   event.State
	Absent  bool
	Shared  int  // newest round with rollouts at the coordinator; -1: none. Not counted through a folder
	Here    bool // its worker is connected, and the node has not left
	Gone    bool // the node has left or was given up
}

// AdmissionServer is the Admission of one run. It keeps the state of every member and worker, and decides which of
// their batches and events are accepted. Safe for concurrent use.
type AdmissionServer struct {
	o       AdmissionOptions
	silence time.Duration
	gate    gate

	mu       sync.Mutex
	lineup   *lineup
	sessions map[string]*session
	groups   map[string]*group // by invitation
	queue    []event.Event     // events to report
	expelled []string          // workers whose connections to close
	version  int64             // of the lineup, when changed was made
	changed  chan struct{}
	moved    time.Time // when a worker last made progress
	ended    string
	message  string

	reporting sync.Mutex // held while calling Report, to keep the order; locked before mu
	enrolled  bucket     // guarded by mu
}

var _ Admission = (*AdmissionServer)(nil)

// NewAdmissionServer opens the admission server of a run. Its errors are not refusals.
func NewAdmissionServer(o AdmissionOptions, known []KnownMember) (*AdmissionServer, error) {
	if o.Run == "" || o.Rounds < 1 || o.Store == nil || o.Deliver == nil || o.Acked == nil || o.Recorded == nil || o.Report == nil || o.Logger == nil {
		return nil, errors.New("open admission: an option is missing")
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Silence == 0 {
		o.Silence = SilentAfter
	}
	if o.Inputs == nil {
		o.Inputs = map[string]string{}
	}
	// The versions must differ from those of an earlier attempt's roster.
	l, err := newLineup(o.Local, o.Rounds, !o.Cfg.Async(), o.Now().UnixMilli())
	if err != nil {
		return nil, fmt.Errorf("open the reception: %w", err)
	}
	l.offers, l.lag, l.now, l.trust = !o.Trusted, o.Cfg.ExternalLag, o.Now(), newTrust(units.Seconds(o.Cfg.BarrierDeadline))
	ahead := 2
	if o.Cfg.Async() {
		ahead += o.Cfg.MaxStaleness
	}
	r := &AdmissionServer{
		o: o, silence: o.Silence, lineup: l, sessions: map[string]*session{}, groups: map[string]*group{}, changed: make(chan struct{}), moved: o.Now(), version: l.version,
		gate: gate{
			rounds: o.Rounds, rollouts: o.Cfg.MostOwn(), completions: o.Cfg.NumGenerations, tokens: o.Cfg.MaxCompletionLength, ahead: ahead, async: o.Cfg.Async(),
		},
		enrolled: newBucket(enrolRate, enrolBurst),
	}
	ctx, cancel := context.WithTimeout(context.Background(), recordedLimit)
	defer cancel()
	recorded, _, err := o.Recorded(ctx)
	if err != nil {
		return nil, fmt.Errorf("open the reception: %w", err)
	}
	for _, m := range known {
		r.recall(m, recorded[m.Node])
	}
	for _, m := range o.Local {
		l.progress(l.find(m.Node), recorded[m.Node], "")
	}
	l.look()
	l.unreported() // the database already has these changes
	return r, nil
}

// recall restores the assignment of a node from an earlier attempt. Its worker counts as just seen, because it may have
// continued. If the name belongs to another node, for example because this host has more nodes than before, that node
// keeps it.
func (r *AdmissionServer) recall(m KnownMember, recorded int) {
	if m.Worker == "" {
		return
	}
	if r.lineup.find(m.Node) != nil {
		r.warn(nil, "", fmt.Sprintf("node %s of worker %s has the name of another node and cannot continue under it. "+
			"Try: on %[2]s, the same swarm join command with --fresh --node-id OTHER", m.Node, m.Worker))
		return
	}
	s := r.sessions[m.Worker]
	if s == nil {
		s = r.open(m.Worker)
	}
	round := max(recorded, m.From)
	assignment := r.lineup.join(m.Node, m.Worker, m.From, round, "")
	assignment.offered, assignment.Absent, assignment.away = round-1, true, true // until the first sign of life
	assignment.silent, assignment.streak = true, round-m.From
	s.assignments = append(s.assignments, assignment)
	s.rates.resize(len(s.assignments))
}

// open creates the worker's session. The caller holds mu or has not published r yet.
func (r *AdmissionServer) open(worker string) *session {
	s := newSession(worker, r.o.Now(), r.slack())
	if r.o.Registry != nil {
		s.invitation = r.o.Registry.Invitation(worker)
		r.lineup.trust.invitations[worker] = s.invitation
	}
	r.sessions[worker] = s
	return s
}

// Progress records the round that a node on the coordinator's host works on.
func (r *AdmissionServer) Progress(node string, round int) {
	r.lock()
	defer r.flush()
	if s := r.lineup.find(node); s != nil && s.worker == "" {
		r.lineup.progress(s, round, s.state)
	}
}

// Waits records that a node on the coordinator's host waits at the barrier of a round.
func (r *AdmissionServer) Waits(node string, round int) {
	r.lock()
	defer r.flush()
	if s := r.lineup.find(node); s != nil && s.worker == "" {
		r.lineup.awaits(round)
	}
}

// lock locks mu and passes the time to the lineup.
func (r *AdmissionServer) lock() {
	r.mu.Lock()
	r.lineup.now = r.o.Now()
}

// Lost records that a node on the coordinator's host was given up. The barrier doesn't wait for it.
func (r *AdmissionServer) Lost(node string) {
	r.lock()
	defer r.flush()
	if s := r.lineup.find(node); s != nil && s.worker == "" {
		r.lineup.leave(s, event.CauseUnknown, "given up")
	}
}

// Foreign admits another program's node. Its rollouts are trusted by their answer keys, and the barrier doesn't wait
// for it. A repeated call only updates the round.
func (r *AdmissionServer) Foreign(node string, round int) {
	r.lock()
	defer r.flush()
	s := r.lineup.find(node)
	switch {
	case s == nil && len(r.lineup.assignments) < maxMembers:
		s = &assignment{Member: protocol.Member{Node: node, Absent: true, Trust: protocol.TrustKey}, offered: -1}
		r.lineup.put(s)
		r.lineup.changed()
	case s == nil || s.Trust != protocol.TrustKey:
		return
	}
	r.lineup.progress(s, round, s.state)
}

// Members returns the swarm's members, in the order in which they joined, and a channel that is closed at the next
// change. The slice is never modified.
func (r *AdmissionServer) Members() ([]protocol.Member, <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lineup.members(), r.changed
}

// Workers returns the states of all workers that have taken part in this run, sorted by name.
func (r *AdmissionServer) Workers() []WorkerStatus {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := make([]WorkerStatus, 0, len(r.sessions))
	for _, s := range r.sessions {
		w := WorkerStatus{
			Worker: s.worker, Host: s.host, Device: s.device, Version: s.version, State: s.state,
			Offered: s.offered, Refused: s.refused, Bytes: s.bytes, Dropped: s.dropped, Reason: s.reason, ClockOffset: s.drift.offset,
		}
		if s.state == "" {
			w.State = event.WorkerAway
		} else {
			w.LastSeen = unix(s.observed)
		}
		for _, n := range s.present() {
			w.Nodes = append(w.Nodes, r.status(s, n))
		}
		list = append(list, w)
	}
	slices.SortFunc(list, func(a, b WorkerStatus) int { return strings.Compare(a.Worker, b.Worker) })
	return list
}

// Nodes returns the states of all workers' nodes that have taken part in the run, in the order in which they joined. It
// includes nodes that have left.
func (r *AdmissionServer) Nodes() (list []NodeStatus) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range r.lineup.assignments {
		if s := r.sessions[a.worker]; s != nil {
			list = append(list, r.status(s, a))
		}
	}
	return list
}

// status returns the state of one of a worker's nodes. The caller holds mu.
func (r *AdmissionServer) status(s *session, a *assignment) NodeStatus {
	return NodeStatus{
		Node: a.Node, Worker: a.worker, From: a.From, Round: a.round, Trusted: r.lineup.effective(a), State: a.state, Absent: a.Absent,
		Shared: a.offered, Gone: a.gone != "", Here: a.gone == "" && s.state == event.WorkerConnected,
	}
}

// End records the end of the run. Every later beat is answered with its final state.
func (r *AdmissionServer) End(state, message string) {
	r.lock()
	defer r.flush()
	r.ended, r.message, r.moved = state, message, r.o.Now()
}

// flush unlocks mu, signals changes of the roster, and reports the queued events in order.
func (r *AdmissionServer) flush() {
	for _, c := range r.lineup.unreported() {
		r.queue = append(r.queue, r.happened(c))
	}
	if r.version != r.lineup.version {
		r.version = r.lineup.version
		close(r.changed)
		r.changed = make(chan struct{})
	}
	idle, expelled := len(r.queue) == 0, r.expelled
	r.expelled = nil
	r.mu.Unlock()
	for _, worker := range expelled {
		r.o.Expel(worker)
	}
	if idle {
		return
	}
	r.reporting.Lock()
	defer r.reporting.Unlock()
	r.mu.Lock()
	batch := r.queue
	r.queue = nil
	r.mu.Unlock()
	for _, e := range batch {
		r.o.Report(e)
	}
}

// happened returns the event of a change.
func (r *AdmissionServer) happened(c change) event.Event {
	e := event.Event{
		Type: event.TypeJoin, Time: unix(r.o.Now()), Run: r.o.Run, Node: c.assignment.Node, Worker: c.assignment.worker,
		RoundIndex: c.assignment.From, Message: c.assignment.brings,
	}
	if c.back {
		e.Message = ""
	}
	if c.absent {
		e.Type, e.RoundIndex, e.Message, e.Cause = event.TypeLeave, 0, c.why, c.assignment.cause
	}
	return e
}

// report queues an event about a worker.
func (r *AdmissionServer) report(s *session, state event.State, message string) {
	s.state = state
	r.queue = append(r.queue, event.Event{Type: event.TypeWorker, Time: unix(r.o.Now()), Run: r.o.Run, Worker: s.worker, State: state, Message: message})
}

// warn queues a warning, at most once a minute per kind and worker. s may be nil.
func (r *AdmissionServer) warn(s *session, kind, message string) {
	if s != nil && !s.due(kind, r.o.Now()) {
		return
	}
	e := event.Event{Type: event.TypeWarning, Time: unix(r.o.Now()), Run: r.o.Run, Message: message}
	if s != nil {
		e.Worker = s.worker
	}
	r.queue = append(r.queue, e)
}

func unix(t time.Time) float64 { return float64(t.UnixMicro()) / 1e6 }
