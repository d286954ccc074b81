package membership

import (
	"context"
	"fmt"
	"strings"

	"github.com/sapo-swarm/swarm/metrics/event"
)

// Join gives a worker's nodes their seats: all of them, or none.
func (r *Reception) Join(ctx context.Context, worker string, join Join) (Joined, error) {
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
	r.mu.Lock()
	defer r.flush()
	s, refusal := r.admit(worker)
	if refusal != nil {
		return Joined{}, refusal
	}
	names, refusal := r.names(s, join.Nodes)
	if refusal != nil {
		return Joined{}, refusal
	}
	seats := make([]Seat, len(names))
	for i, info := range join.Nodes {
		if seats[i] = r.place(names[i], info, recorded[names[i]]); seats[i].From >= r.o.Rounds {
			return Joined{}, Refuse(CodeEnded, "the run is in round %d of %d: too late for a new node. Try: join the next run", r.lineup.newest, r.o.Rounds)
		}
		for _, round := range evaluated[names[i]] {
			if round >= seats[i].From {
				seats[i].Evaluated = append(seats[i].Evaluated, round)
			}
		}
	}
	r.seat(s, join, seats)
	return Joined{Seats: seats, Roster: r.roster(-1)}, nil
}

// asks does with a join what needs no look into the database.
func (r *Reception) asks(worker string, join Join) *Refusal {
	r.mu.Lock()
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
	if n := len(join.Nodes); n < 1 || n > MaxSeats {
		return Refuse(CodeMalformed, "a worker brings 1 to %d nodes, not %d", MaxSeats, n)
	}
	if len(join.Device) > MaxTextBytes {
		return Refuse(CodeMalformed, "a device's name of more than %d bytes", MaxTextBytes)
	}
	for _, info := range join.Nodes {
		if len(info.Model) > MaxTextBytes || info.Rounds < 0 {
			return Refuse(CodeMalformed, "a node of %d rounds, or a model's name of more than %d bytes", info.Rounds, MaxTextBytes)
		}
	}
	return nil
}

// joinable tells whether the worker may join this run now.
func (r *Reception) joinable(s *session, join Join) *Refusal {
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

// names are the nodes' names, each valid and the worker's own or nobody's.
func (r *Reception) names(s *session, nodes []NodeInfo) ([]string, *Refusal) {
	names := make([]string, len(nodes))
	taken := map[string]bool{}
	claim := func(i int, name string) bool {
		key := strings.ToLower(name)
		seat := r.lineup.seat(name)
		if taken[key] || seat != nil && (seat.worker != s.worker || seat.Node != name) {
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
			return nil, Refuse(CodeName, "a node is called %s already. Try: another --node-id", info.Name)
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
	if len(s.seats)+fresh > maxEverSeats || len(r.lineup.seats)+fresh > maxMembers {
		return nil, Refuse(CodeFull, "%d nodes of worker %s have taken part and %d in all, and no more may. Try: the names of before",
			len(s.seats), s.worker, len(r.lineup.seats))
	}
	return names, nil
}

// place says where a node begins. One with a former life here goes on with it. One without begins where the swarm will be soon, and after all
// that is known of its name: a life that was lost is not lived again.
func (r *Reception) place(name string, info NodeInfo, recorded int) Seat {
	known := r.lineup.seat(name)
	rounds := min(info.Rounds, r.o.Rounds)
	switch {
	case known != nil && rounds > 0 && (rounds > known.From || r.lineup.newest <= known.From):
		return Seat{Node: name, From: known.From, Recorded: max(recorded, known.From), Evaluated: []int{}}
	case known == nil && rounds > 0: // this coordinator has lost what it knew of it
		from := min(rounds, r.lineup.newest+2, r.o.Rounds-1)
		return Seat{Node: name, From: from, Recorded: from, Evaluated: []int{}}
	}
	after := -1
	if known != nil {
		after = max(known.offered, recorded-1)
	}
	from := r.lineup.first(after)
	return Seat{Node: name, From: from, Recorded: from, Evaluated: []int{}}
}

// seat makes it so. Nodes that the worker had and doesn't bring any more leave.
func (r *Reception) seat(s *session, join Join, seats []Seat) {
	brought := map[string]bool{}
	for _, seat := range seats {
		brought[seat.Node] = true
	}
	for _, old := range s.present() {
		if !brought[old.Node] {
			r.lineup.leave(old, event.CauseStopped, "its worker goes on without it")
		}
	}
	s.device = Tidy(join.Device, MaxTextBytes)
	r.hear(s)
	if s.state != event.WorkerConnected {
		r.report(s, event.WorkerConnected, s.device)
	}
	for i, place := range seats {
		info := join.Nodes[i]
		seat := r.lineup.join(place.Node, s.worker, place.From, max(place.From, info.Rounds), Tidy(info.Model, MaxTextBytes)+" on "+s.device)
		if s.owns(place.Node) == nil {
			s.seats = append(s.seats, seat)
		}
	}
	s.rates.seats(len(s.present()))
	r.moved = r.o.Now()
}
