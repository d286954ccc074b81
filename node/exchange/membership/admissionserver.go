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

// AdmissionOptions are what a AdmissionServer needs. Fields without a remark must be set.
type AdmissionOptions struct {
	Run, Experiment, Version string
	Config                   json.RawMessage // as Welcome has it
	Cfg                      configs.Config
	Inputs                   map[string]string // may be nil
	Local                    []protocol.Member // nodes of the coordinator's own host; may be none
	Rounds                   int
	Registry                 *Registry     // nil: who has access to the way may join, under any free name
	Trusted                  bool          // the workers are the owner's own, or friends with a common folder: no rates are held against them
	Silence                  time.Duration // without a sign of life, a worker's nodes are not waited for; 0: SilentAfter

	// Store shares a batch with the swarm; when it returns nil, that is durable. The same batch again changes nothing.
	Store func(ctx context.Context, batch Offer) error

	// Deliver records a worker's events; when it returns nil, they are in the database for good. events are numbered
	// from d.First on, as many as d.Events: one that may not be told is an event of TypeRelease without a node, which
	// changes nothing. It is called for one delivery of a worker at a time.
	Deliver func(ctx context.Context, worker string, d Delivery, events []event.Event) error

	// Acked is up to which number the database has an outbox's events.
	Acked func(ctx context.Context, worker, outbox string) (int64, error)

	// Recorded is, by node, up to which round the database has all from the node's first, and whose evaluations; as
	// store.Reader's.
	Recorded func(ctx context.Context) (recorded map[string]int, evaluated map[string][]int, err error)

	// Report takes events of workers that come and go, and warnings, in order. It must not call the AdmissionServer but
	// for Members and Workers.
	Report func(event.Event)

	// Keep returns once all that was reported before is on the disk: a join is answered then. Nil: nothing is kept.
	Keep func(ctx context.Context) error

	Expel  func(worker string) // may be nil: called when a worker is revoked or banned, so that its connections end
	Now    func() time.Time    // nil: time.Now
	Logger *slog.Logger
}

// KnownMember is a worker's node of an earlier attempt at the run: it keeps its place.
type KnownMember struct {
	Node, Worker string
	From         int
}

// WorkerStatus is how a worker fares.
type WorkerStatus struct {
	Worker, Host, Device, Version string
	State                         event.State // one of event.Worker*; away until it is heard of
	Nodes                         []NodeStatus
	LastSeen                      float64 // Unix seconds; 0: not by this process
	Offered                       int64   // batches, like the next
	Refused                       int64
	Bytes                         int64   // of offers and events that were taken
	Dropped                       int64   // events that said what can't be
	Reason                        string  // of the newest refusal or drop, or of its end
	ClockOffset                   float64 // seconds that are added to its times; 0: its clock is right
}

// NodeStatus is where a worker's node is.
type NodeStatus struct {
	Node   string
	From   int
	Round  int
	State  event.State
	Absent bool
	Shared int  // newest round whose rollouts are here; -1: none. Through a folder nobody counts them
	Here   bool // its worker is connected, and it has not left
	Gone   bool // it has left or was given up
}

// AdmissionServer is the Admission of one run: it knows every member and every worker, and decides what of theirs is
// taken. Safe for concurrent use.
type AdmissionServer struct {
	o       AdmissionOptions
	silence time.Duration
	gate    gate

	mu       sync.Mutex
	lineup   *lineup
	sessions map[string]*session
	groups   map[string]*group // by invitation
	queue    []event.Event     // to be told
	expelled []string          // workers whose connections are to end
	version  int64             // of the lineup when changed was made
	changed  chan struct{}
	moved    time.Time // when anything of a worker's got on
	ended    string
	message  string

	reporting sync.Mutex // held around Report, to keep the order; taken before mu
	enrolled  bucket     // under mu
}

var _ Admission = (*AdmissionServer)(nil)

// NewAdmissionServer opens the admission server of a run. Its errors are the caller's.
func NewAdmissionServer(o AdmissionOptions, known []KnownMember) (*AdmissionServer, error) {
	if o.Run == "" || o.Rounds < 1 || o.Store == nil || o.Deliver == nil || o.Acked == nil || o.Recorded == nil || o.Report == nil || o.Logger == nil {
		return nil, errors.New("open the reception: an option is missing")
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
	// Versions of an earlier attempt's roster must not be taken for this one's.
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
	l.unreported() // who came and went is in the database
	return r, nil
}

// recall assigns a node of an earlier attempt. Its worker counts as heard of now: it may have gone on all the while.
// Where the name is another node's now, as when this host has more nodes than before, that one keeps it.
func (r *AdmissionServer) recall(m KnownMember, recorded int) {
	if m.Worker == "" {
		return
	}
	if r.lineup.find(m.Node) != nil {
		r.warn(nil, "", fmt.Sprintf("node %s of worker %s has the name of another node: it can't go on under it. "+
			"Try: on %[2]s, the same swarm join with --fresh --node-id OTHER", m.Node, m.Worker))
		return
	}
	s := r.sessions[m.Worker]
	if s == nil {
		s = r.open(m.Worker)
	}
	round := max(recorded, m.From)
	assignment := r.lineup.join(m.Node, m.Worker, m.From, round, "")
	assignment.offered, assignment.Absent, assignment.away = round-1, true, true // until it is heard of
	assignment.silent, assignment.streak = true, round-m.From
	s.assignments = append(s.assignments, assignment)
	s.rates.resize(len(s.assignments))
}

// open makes the worker's session. mu is held, or nobody else knows r yet.
func (r *AdmissionServer) open(worker string) *session {
	s := newSession(worker, r.o.Now(), r.slack())
	if r.o.Registry != nil {
		s.invitation = r.o.Registry.Invitation(worker)
		r.lineup.trust.invitations[worker] = s.invitation
	}
	r.sessions[worker] = s
	return s
}

// Progress says which round a node of the coordinator's own host works on.
func (r *AdmissionServer) Progress(node string, round int) {
	r.lock()
	defer r.flush()
	if s := r.lineup.find(node); s != nil && s.worker == "" {
		r.lineup.progress(s, round, s.state)
	}
}

// Waits says that a node of the coordinator's own host waits at the barrier of a round.
func (r *AdmissionServer) Waits(node string, round int) {
	r.lock()
	defer r.flush()
	if s := r.lineup.find(node); s != nil && s.worker == "" {
		r.lineup.awaits(round)
	}
}

// lock takes mu, and tells the lineup the time.
func (r *AdmissionServer) lock() {
	r.mu.Lock()
	r.lineup.now = r.o.Now()
}

// Lost says that a node of the coordinator's own host was given up: nobody waits for it.
func (r *AdmissionServer) Lost(node string) {
	r.lock()
	defer r.flush()
	if s := r.lineup.find(node); s != nil && s.worker == "" {
		r.lineup.leave(s, event.CauseUnknown, "given up")
	}
}

// Foreign admits another program's node: its rollouts are taken by their answer keys, and it is not waited for. Again
// it only notes the round.
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

// Members returns the swarm, in the order its members came, and a channel that is closed at the next change. The slice
// is never changed.
func (r *AdmissionServer) Members() ([]protocol.Member, <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lineup.members(), r.changed
}

// Workers says how all workers fare that this run has had, by name.
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
			w.Nodes = append(w.Nodes, s.status(n))
		}
		list = append(list, w)
	}
	slices.SortFunc(list, func(a, b WorkerStatus) int { return strings.Compare(a.Worker, b.Worker) })
	return list
}

// Nodes says where every node of a worker's is that the run has had, also those that have left, in the order they came.
func (r *AdmissionServer) Nodes() (list []NodeStatus) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range r.lineup.assignments {
		if s := r.sessions[a.worker]; s != nil {
			list = append(list, s.status(a))
		}
	}
	return list
}

// status is where one of the worker's nodes is.
func (s *session) status(a *assignment) NodeStatus {
	return NodeStatus{
		Node: a.Node, From: a.From, Round: a.round, State: a.state, Absent: a.Absent, Shared: a.offered, Gone: a.gone != "",
		Here: a.gone == "" && s.state == event.WorkerConnected,
	}
}

// End makes every later beat say that the run has ended, and how.
func (r *AdmissionServer) End(state, message string) {
	r.lock()
	defer r.flush()
	r.ended, r.message, r.moved = state, message, r.o.Now()
}

// flush unlocks mu, lets those know who wait for a change, and tells what has happened, in order.
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

// happened is the event of a change.
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

// report queues an event of a worker.
func (r *AdmissionServer) report(s *session, state event.State, message string) {
	s.state = state
	r.queue = append(r.queue, event.Event{Type: event.TypeWorker, Time: unix(r.o.Now()), Run: r.o.Run, Worker: s.worker, State: state, Message: message})
}

// warn queues a warning, at most once a minute of a kind and a worker. s may be nil.
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
