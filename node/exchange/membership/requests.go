package membership

import (
	"context"
	"time"

	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/metrics/event"
)

// Limits of enrolments: a rate per second and a burst, because a job array of a thousand starts together.
const enrolRate, enrolBurst = 50, 500

// Enrol creates a worker for a client with an invitation. Requests without one are refused without counting, so they
// cannot use up the rate.
func (r *AdmissionServer) Enrol(_ context.Context, enrol Enrol) (Enrolled, error) {
	if r.o.Registry == nil {
		return Enrolled{}, Refuse(CodeToken, "this swarm has no invitations: access to its folder decides who may join. Try: swarm join --shared DIR")
	}
	if refusal := speaks(enrol.Protocol, r.o.Version, ""); refusal != nil {
		return Enrolled{}, refusal
	}
	if refusal := r.o.Registry.invites(enrol); refusal != nil {
		return Enrolled{}, refusal
	}
	r.mu.Lock()
	wait := r.enrolled.take(r.o.Now(), 1)
	r.mu.Unlock()
	if wait > 0 {
		return Enrolled{}, slower(wait)
	}
	answer, err := r.o.Registry.Enrol(enrol)
	if err != nil {
		return Enrolled{}, r.logged("enrol", err)
	}
	return answer, nil
}

// Hello introduces a worker's process.
func (r *AdmissionServer) Hello(_ context.Context, worker string, hello Hello) (Welcome, error) {
	r.lock()
	defer r.flush()
	s, refusal := r.request(worker)
	if refusal != nil {
		return Welcome{}, refusal
	}
	if refusal := r.speaks(s, hello.Protocol, hello.Version); refusal != nil {
		return Welcome{}, refusal
	}
	if len(hello.Version) > MaxTextBytes || len(hello.Host) > MaxTextBytes || len(hello.Process) > MaxTextBytes {
		return Welcome{}, Refuse(CodeMalformed, "a version, host or process of more than %d bytes", MaxTextBytes)
	}
	now := r.o.Now()
	host := Tidy(hello.Host, MaxTextBytes)
	other := host != s.host || hello.Process != s.process && hello.Process != "" && s.process != ""
	if left := r.silence - now.Sub(s.observed); s.state == event.WorkerConnected && other && left > 0 {
		refusal := r.double(s, host)
		refusal.RetryAfter = left.Seconds()
		return Welcome{}, refusal
	}
	again := s.state == event.WorkerConnected && !other
	if !again {
		if refusal := r.rated(s, &s.rates.visits, 1); refusal != nil {
			return Welcome{}, refusal
		}
	}
	s.host, s.process, s.version = host, hello.Process, Tidy(hello.Version, MaxTextBytes)
	r.clock(s, hello.Time)
	r.alive(s)
	if !again {
		r.report(s, event.WorkerConnected, host+", swarm "+s.version)
	}
	return Welcome{
		Protocol: Protocol, Run: r.o.Run, Experiment: r.o.Experiment, Config: r.o.Config, Inputs: r.o.Inputs, Version: r.o.Version,
		Round: r.lineup.newest, Time: unix(now),
	}, nil
}

// double refuses a second process with one worker's credentials, and warns.
func (r *AdmissionServer) double(s *session, host string) *Refusal {
	if host != "" {
		host = " on " + host
	}
	r.warn(s, CodeName, "worker "+s.worker+" is connected from "+s.host+", and another process"+host+
		" uses its credentials. Try: a separate invitation or --name for each, or swarm workers revoke "+s.worker)
	return Refuse(CodeName, "worker %s is already connected from %s. Try: a different name or home for each process (--name, --home)",
		s.worker, s.host)
}

// Beat records a sign of life and returns the roster.
func (r *AdmissionServer) Beat(_ context.Context, worker string, beat Beat) (Roster, error) {
	r.lock()
	defer r.flush()
	s, refusal := r.request(worker)
	if refusal != nil {
		return Roster{}, refusal
	}
	if refusal := r.speaks(s, beat.Protocol, ""); refusal != nil {
		return Roster{}, refusal
	}
	if refusal := r.runs(beat.Run); refusal != nil {
		return Roster{}, refusal
	}
	if len(beat.Nodes) > MaxNodes || len(beat.Process) > MaxTextBytes {
		return Roster{}, Refuse(CodeMalformed, "a heartbeat of %d nodes, more than %d", len(beat.Nodes), MaxNodes)
	}
	if s.state == event.WorkerConnected && s.process != "" && beat.Process != s.process {
		return Roster{}, r.double(s, "")
	}
	for _, p := range beat.Nodes {
		if !known(p.State) {
			return Roster{}, Refuse(CodeMalformed, "a node in an unknown state")
		}
		if s.owns(p.Node) == nil {
			return Roster{}, Refuse(CodeRun, "the coordinator does not know node %.40q of worker %s. Try: the same command again",
				p.Node, worker)
		}
	}
	if s.state == event.WorkerLeft { // a late beat does not bring the worker back
		return r.roster(beat.Roster), nil
	}
	s.process, s.pending = beat.Process, beat.Pending
	r.clock(s, beat.Time)
	r.observe(s)
	for _, p := range beat.Nodes {
		r.whereabouts(s.owns(p.Node), p)
	}
	if beat.Left {
		for _, assignment := range s.present() {
			r.lineup.leave(assignment, event.CauseStopped, "its worker left")
		}
		r.moved = r.o.Now()
		r.report(s, event.WorkerLeft, "")
	}
	return r.roster(beat.Roster), nil
}

// whereabouts records the node's state from a beat.
func (r *AdmissionServer) whereabouts(assignment *assignment, p Progress) {
	switch p.State {
	case event.StateGivenUp:
		r.lineup.leave(assignment, event.CauseUnknown, "given up")
		return
	case event.StateQueued, event.StateStarting, event.StateLoading, event.StateReplaying: // returning to its previous round
		r.lineup.pause(assignment, p.State)
		return
	}
	r.lineup.progress(assignment, p.Round, p.State)
	r.advanced(assignment)
}

// advanced records that a node made progress. Repeated rounds are no progress, so they don't extend the wait at the
// run's end.
func (r *AdmissionServer) advanced(assignment *assignment) {
	if assignment.round > assignment.best {
		assignment.best, r.moved = assignment.round, r.o.Now()
	}
}

// roster returns the roster. It includes the members if the worker has another version.
func (r *AdmissionServer) roster(knows int64) Roster {
	roster := Roster{Version: r.lineup.version, Round: r.lineup.newest, Ended: r.ended, Message: r.message, Time: unix(r.o.Now())}
	if knows != roster.Version {
		roster.Members = r.lineup.members()
	}
	return roster
}

// Offer checks a batch and stores it.
func (r *AdmissionServer) Offer(ctx context.Context, worker string, offer Offer) error {
	assignment, refusal := r.look(worker, offer)
	if refusal != nil {
		return refusal
	}
	if refusal := r.gate.open(offer); refusal != nil {
		return r.turnDown(worker, refusal)
	}
	if err := r.o.Store(ctx, offer); err != nil {
		return r.logged("store rollouts of "+offer.Node, internal(err))
	}
	r.lock()
	defer r.flush()
	r.lineup.share(assignment, offer.Round)
	r.sessions[worker].accept(len(offer.Data))
	r.occupy(r.sessions[worker], offer)
	r.advanced(assignment)
	return nil
}

// look makes the checks of an offer that don't need its content.
func (r *AdmissionServer) look(worker string, offer Offer) (*assignment, *Refusal) {
	r.lock()
	defer r.flush()
	s, refusal := r.admit(worker)
	if refusal != nil {
		return nil, refusal
	}
	if refusal := r.rated(s, &s.rates.offers, 1); refusal != nil {
		return nil, r.refuse(s, refusal)
	}
	shared := (*bucket)(nil)
	if g := r.groupOf(s); g != nil {
		shared = &g.bytes
	}
	if refusal := r.rated(s, &s.rates.bytes, len(offer.Data), shared); refusal != nil {
		return nil, r.refuse(s, refusal)
	}
	assignment := s.owns(offer.Node)
	switch {
	case r.ended != "":
		return nil, Refuse(CodeEnded, "the run has ended: %s", r.ended)
	case assignment == nil:
		return nil, r.refuse(s, Refuse(CodeRollouts, "rollouts of %.40q: that node does not belong to worker %s", offer.Node, worker))
	}
	p := place{from: assignment.From, round: assignment.round, offered: assignment.offered, newest: r.lineup.newest}
	if r.lineup.offers {
		p.round = min(p.round, max(p.offered+1, p.from)+offerWindow)
	}
	if refusal := r.gate.check(p, offer); refusal != nil {
		return nil, r.refuse(s, refusal)
	}
	if refusal := r.room(s, offer); refusal != nil {
		return nil, r.refuse(s, refusal)
	}
	if s.state == event.WorkerConnected {
		r.observe(s)
	}
	return assignment, nil
}

// turnDown counts a refused offer.
func (r *AdmissionServer) turnDown(worker string, refusal *Refusal) *Refusal {
	r.lock()
	defer r.flush()
	return r.refuse(r.sessions[worker], refusal)
}

func (r *AdmissionServer) refuse(s *session, refusal *Refusal) *Refusal {
	if refusal.Code == CodeRate {
		return refusal // the worker offers it again, and it counts then
	}
	if warning := s.refuse(refusal.Message); warning != "" {
		r.warn(s, CodeRollouts, warning)
	}
	return refusal
}

// admit returns the worker's session, or why it can't have one. The caller holds mu.
func (r *AdmissionServer) admit(worker string) (*session, *Refusal) {
	if refusal := checkWorker(worker); refusal != nil {
		return nil, refusal
	}
	if r.o.Registry != nil {
		if refusal := r.o.Registry.standing(worker); refusal != nil {
			if s := r.sessions[worker]; s != nil {
				r.expel(s, refusal)
			}
			return nil, refusal
		}
	}
	s := r.sessions[worker]
	if s == nil {
		if len(r.sessions) >= MaxWorkers {
			return nil, Refuse(CodeFull, "this run has had its maximum of %d workers. Try: another run", MaxWorkers)
		}
		s = r.open(worker)
	}
	if s.state == event.WorkerBanned || s.state == event.WorkerRevoked { // the registry has readmitted the worker
		s.state, s.reason = event.WorkerLeft, ""
	}
	return s, nil
}

// request admits a worker for a request other than an offer.
func (r *AdmissionServer) request(worker string) (*session, *Refusal) {
	s, refusal := r.admit(worker)
	if refusal == nil {
		refusal = r.rated(s, &s.rates.requests, 1)
	}
	return s, refusal
}

// rated takes n tokens from a bucket of the worker and from its group's buckets, which may be nil.
func (r *AdmissionServer) rated(s *session, b *bucket, n int, group ...*bucket) *Refusal {
	if r.o.Trusted {
		return nil
	}
	if wait := within(r.o.Now(), float64(n), append(group, b)...); wait > 0 {
		r.warn(s, CodeRate, "worker "+s.worker+" sends more than its limit and must wait")
		return slower(wait)
	}
	return nil
}

func slower(wait time.Duration) *Refusal {
	return &Refusal{Code: CodeRate, Message: "the limit of requests is reached. Try: again later", RetryAfter: wait.Seconds()}
}

// observe records a sign of life.
func (r *AdmissionServer) observe(s *session) {
	now, before := r.o.Now(), s.observed
	r.alive(s)
	if s.state == "" || s.state == event.WorkerAway {
		message := "connected again"
		if s.state == event.WorkerAway {
			message += " after " + now.Sub(before).Round(time.Second).String()
		}
		r.report(s, event.WorkerConnected, message)
	}
}

// alive restores the nodes of a worker that was silent.
func (r *AdmissionServer) alive(s *session) {
	s.observed = r.o.Now()
	if r.o.Registry != nil {
		r.o.Registry.Seen(s.worker, s.host)
	}
	if s.state == "" || s.state == event.WorkerAway {
		r.lineup.silence(s.present(), false)
	}
}

// clock records the time in a worker's message.
func (r *AdmissionServer) clock(s *session, theirs float64) {
	if !s.drift.sample(unix(r.o.Now()), theirs) || s.drift.offset == 0 {
		return
	}
	how, offset := "behind", units.Seconds(s.drift.offset)
	if offset < 0 {
		how, offset = "ahead of", -offset
	}
	r.warn(s, "clock", "worker "+s.worker+"'s clock is "+offset.Round(time.Second).String()+" "+how+
		" the coordinator's: the times of its events are corrected. Try: use NTP on its host")
}

// speaks refuses other protocol versions.
func (r *AdmissionServer) speaks(s *session, protocol int, version string) *Refusal {
	refusal := speaks(protocol, r.o.Version, version)
	if refusal != nil {
		r.warn(s, CodeVersion, "worker "+s.worker+" was refused: "+refusal.Message)
	}
	return refusal
}

func speaks(protocol int, here, there string) *Refusal {
	if protocol == Protocol {
		return nil
	}
	if there = Tidy(there, 40); there == "" {
		there = "another version"
	}
	return Refuse(CodeVersion, "the coordinator (swarm %s) uses protocol %d, but the worker (%s) uses %d. Try: the same version of swarm on both",
		here, Protocol, there, protocol)
}

// runs refuses messages for another run.
func (r *AdmissionServer) runs(run string) *Refusal {
	if run == r.o.Run {
		return nil
	}
	return Refuse(CodeRun, "the coordinator runs %s, not %.80q. Try: the same command again, which joins that run", r.o.Run, run)
}

// logged writes the cause of an internal error to the coordinator's log. The worker gets only a general message.
func (r *AdmissionServer) logged(what string, err error) error {
	if refusal, ok := err.(*Refusal); ok && refusal.cause != nil { //nolint:errorlint // not wrapped: made here
		r.o.Logger.Error("a worker's request failed", "request", what, "error", refusal.cause)
	}
	return err
}
