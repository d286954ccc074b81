package mps

import (
	"fmt"
	"time"
)

const (
	missesAllowed = 3 // questions in a row without an answer before the daemon counts as lost
	mostRestarts  = 2 // of a daemon within one fault; together within launch.Spec.FaultTimeout
)

// observation is one look at a daemon.
type observation struct {
	at      time.Time
	err     error // the daemon did not answer
	servers []server
	logged  bool // the server's log tells of a fatal error since the last look
}

// change is what an observation means.
type change int

const (
	nothing   change = iota
	faulted          // the clients are lost: stop them all
	recovered        // new clients may come
	restart          // the daemon must be replaced
	fatal            // MPS is beyond help on this GPU
)

// monitor turns observations into changes. A server in FAULT takes no new clients, and waits for all of its own to
// exit; then it makes its contexts anew and is ACTIVE again. It is pure: no I/O, no clock.
type monitor struct {
	pace     pace
	inFault  bool
	since    time.Time // of the fault, or of the last restart in it
	restarts int
	misses   int
	clients  map[int]int // by server, at the last look that had an answer
}

// see takes the next observation and returns what changed and, for faulted, restart and fatal, why.
func (m *monitor) see(o observation) (change, string) {
	if o.err != nil {
		return m.seeNothing(o)
	}
	m.misses = 0
	trouble := m.trouble(o)
	m.clients = map[int]int{}
	for _, s := range o.servers {
		m.clients[s.pid] = len(s.clients)
	}
	switch {
	case trouble != "" && !m.inFault:
		m.begin(o.at)
		return faulted, trouble
	case trouble != "":
		return m.wait(o.at, m.pace.patience, trouble)
	case m.inFault && ready(o.servers):
		m.inFault = false
		return recovered, ""
	case m.inFault:
		return m.wait(o.at, m.pace.patience, "the MPS server is not active again")
	}
	return nothing, ""
}

// seeNothing takes an observation without an answer.
func (m *monitor) seeNothing(o observation) (change, string) {
	m.misses++
	why := "the MPS control daemon does not answer: " + oneLine("", o.err)
	switch {
	case m.misses < missesAllowed:
		return nothing, ""
	case !m.inFault:
		m.begin(o.at)
		return faulted, why
	}
	return m.wait(o.at, m.pace.regroup, why)
}

func (m *monitor) begin(at time.Time) { m.inFault, m.since, m.restarts = true, at, 0 }

// wait is nothing until patience ends, then restart, at last fatal.
func (m *monitor) wait(at time.Time, patience time.Duration, why string) (change, string) {
	if at.Sub(m.since) < patience {
		return nothing, ""
	}
	if m.restarts == mostRestarts {
		return fatal, why
	}
	m.since, m.clients = at, nil
	m.restarts++
	return restart, why
}

// trouble says what is wrong with the servers, in one line; empty: nothing.
func (m *monitor) trouble(o observation) string {
	alive := map[int]bool{}
	for _, s := range o.servers {
		alive[s.pid] = true
		if s.status == statusFault {
			return fmt.Sprintf("the MPS server %d is in FAULT after a fatal GPU error of one of its clients", s.pid)
		}
	}
	if o.logged {
		return "the MPS server had a fatal GPU error of one of its clients"
	}
	for pid, clients := range m.clients {
		if clients > 0 && !alive[pid] {
			return fmt.Sprintf("the MPS server %d ended under its clients", pid)
		}
	}
	return ""
}

// ready tells whether new clients can connect: to an active server, or to one that the daemon then starts.
func ready(servers []server) bool {
	for _, s := range servers {
		if s.status != statusActive {
			return false
		}
	}
	return true
}
