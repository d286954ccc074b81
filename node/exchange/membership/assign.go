package membership

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/sapo-swarm/swarm/metrics/event"
)

// keepLimit bounds how long a join waits for the disk. The worker retries.
const keepLimit = 10 * time.Second

// Join assigns all of a worker's nodes, or none. The assignments are on disk before Join returns. Otherwise a
// coordinator that lost power would not know the nodes and would reject their events.
func (r *AdmissionServer) Join(ctx context.Context, worker string, join Join) (Joined, error) {
	joined, err := r.join(ctx, worker, join)
	if err != nil || r.o.Keep == nil {
		return joined, err
	}
	ctx, cancel := context.WithTimeout(ctx, keepLimit)
	defer cancel()
	if err := r.o.Keep(ctx); err != nil {
		return Joined{}, r.logged("join", internal(err))
	}
	return joined, nil
}

func (r *AdmissionServer) join(ctx context.Context, worker string, join Join) (Joined, error) {
	if refusal := checkJoin(join); refusal != nil {
		return Joined{}, refusal
	}
	if refusal := r.asks(worker, join); refusal != nil {
		return Joined{}, refusal
	}
	recorded, evaluated, err := r.o.Recorded(ctx)
	if err != nil {
		return Joined{}, r.logged("join", internal(err))
	}
	r.lock()
	defer r.flush()
	s, refusal := r.admit(worker)
	if refusal != nil {
		return Joined{}, refusal
	}
	names, refusal := r.names(s, join.Nodes)
	if refusal != nil {
		return Joined{}, refusal
	}
	assignments := make([]NodeAssignment, len(names))
	for i, info := range join.Nodes {
		if assignments[i] = r.place(names[i], info, recorded[names[i]]); assignments[i].From >= r.o.Rounds {
			return Joined{}, Refuse(CodeEnded, "the run is in round %d of %d: too late for a new node. Try: join the next run", r.lineup.newest, r.o.Rounds)
		}
		for _, round := range evaluated[names[i]] {
			if round >= assignments[i].From {
				assignments[i].Evaluated = append(assignments[i].Evaluated, round)
			}
		}
	}
	r.assign(s, join, assignments)
	return Joined{Assignments: assignments, Roster: r.roster(-1)}, nil
}

// asks makes the checks of a join that need no database.
func (r *AdmissionServer) asks(worker string, join Join) *Refusal {
	r.lock()
	defer r.flush()
	s, refusal := r.request(worker)
	if refusal == nil {
		refusal = r.joinable(s, join)
	}
	if refusal == nil {
		refusal = r.rated(s, &s.rates.visits, 1)
	}
	return refusal
}

func checkJoin(join Join) *Refusal {
	if n := len(join.Nodes); n < 1 || n > MaxNodes {
		return Refuse(CodeMalformed, "a worker brings 1 to %d nodes, not %d", MaxNodes, n)
	}
	if len(join.Device) > MaxTextBytes {
		return Refuse(CodeMalformed, "a device name of more than %d bytes", MaxTextBytes)
	}
	for _, info := range join.Nodes {
		if len(info.Model) > MaxTextBytes || info.Rounds < 0 {
			return Refuse(CodeMalformed, "a node of %d rounds, or a model name of more than %d bytes", info.Rounds, MaxTextBytes)
		}
	}
	return nil
}

// joinable returns why the worker can't join this run at the moment, or nil.
func (r *AdmissionServer) joinable(s *session, join Join) *Refusal {
	if refusal := r.speaks(s, join.Protocol, ""); refusal != nil {
		return refusal
	}
	if refusal := r.runs(join.Run); refusal != nil {
		return refusal
	}
	if r.ended != "" {
		return Refuse(CodeEnded, "the run has ended: %s", r.ended)
	}
	return nil
}

// names returns the nodes' names. Each is valid, and either new or the worker's own.
func (r *AdmissionServer) names(s *session, nodes []NodeInfo) ([]string, *Refusal) {
	names := make([]string, len(nodes))
	taken := map[string]bool{}
	claim := func(i int, name string) bool {
		key := strings.ToLower(name)
		assignment := r.lineup.find(name)
		if taken[key] || assignment != nil && (assignment.worker != s.worker || assignment.Node != name) {
			return false
		}
		taken[key], names[i] = true, name
		return true
	}
	for i, info := range nodes {
		if info.Name == "" {
			continue
		}
		if refusal := checkName("node", info.Name, maxNodeBytes); refusal != nil {
			return nil, refusal
		}
		if !claim(i, info.Name) {
			return nil, Refuse(CodeName, "a node named %s already exists. Try: another --node-id", info.Name)
		}
	}
	for i, info := range nodes {
		if info.Name != "" {
			continue
		}
		for n := i; !claim(i, fmt.Sprintf("%s_%d", s.worker, n)); n = max(n+1, len(nodes)) {
		}
	}
	fresh := 0
	for _, name := range names {
		if s.owns(name) == nil {
			fresh++
		}
	}
	if len(s.assignments)+fresh > maxEverNodes || len(r.lineup.assignments)+fresh > maxMembers {
		return nil, Refuse(CodeFull, "worker %[2]s has had %[1]d nodes and the swarm %[3]d, the maximum. Try: the earlier node names",
			len(s.assignments), s.worker, len(r.lineup.assignments))
	}
	return names, nil
}

// place decides where a node begins. A node with a previous process here continues. A new one begins at the round that
// the swarm reaches soon, after all known rounds of its name. Lost rounds are not repeated.
func (r *AdmissionServer) place(name string, info NodeInfo, recorded int) NodeAssignment {
	known := r.lineup.find(name)
	rounds := min(info.Rounds, r.o.Rounds)
	switch {
	case known != nil && rounds > 0 && (rounds > known.From || r.lineup.newest <= known.From):
		return NodeAssignment{Node: name, From: known.From, Recorded: max(recorded, known.From), Evaluated: []int{}}
	case known == nil && rounds > 0: // this coordinator has lost the node's record
		from := min(rounds, r.lineup.newest+2, r.o.Rounds-1)
		return NodeAssignment{Node: name, From: from, Recorded: from, Evaluated: []int{}}
	}
	after := -1
	if known != nil {
		after = max(known.offered, recorded-1)
	}
	from := r.lineup.first(after)
	return NodeAssignment{Node: name, From: from, Recorded: from, Evaluated: []int{}}
}

// assign applies the assignments. Nodes that the worker had but doesn't bring leave.
func (r *AdmissionServer) assign(s *session, join Join, assignments []NodeAssignment) {
	brought := map[string]bool{}
	for _, assignment := range assignments {
		brought[assignment.Node] = true
	}
	for _, old := range s.present() {
		if !brought[old.Node] {
			r.lineup.leave(old, event.CauseStopped, "its worker continues without it")
		}
	}
	s.device = Tidy(join.Device, MaxTextBytes)
	r.observe(s)
	if s.state != event.WorkerConnected {
		r.report(s, event.WorkerConnected, s.device)
	}
	for i, place := range assignments {
		info := join.Nodes[i]
		assignment := r.lineup.join(place.Node, s.worker, place.From, max(place.From, info.Rounds), Tidy(info.Model, MaxTextBytes)+" on "+s.device)
		if s.owns(place.Node) == nil {
			s.assignments = append(s.assignments, assignment)
		}
	}
	s.rates.resize(len(s.present()))
	r.moved = r.o.Now()
}
