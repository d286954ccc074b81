package mps

import (
	"fmt"
	"time"
)

const (
	missesAllowed = 3 // consecutive commands without an answer before the daemon counts as lost
	mostRestarts  = 2 // of a daemon within one fault; all of them fit into launch.Spec.FaultTimeout
)

// observation is the result of one poll of a daemon.
type observation struct {
	at      time.Time
	err     error // the daemon did not answer
	servers []server
	logged  bool // the server's log has a new fatal error since the last poll
}

// change is the effect of an observation.
type change int

const (
	nothing   change = iota
	faulted          // the clients are lost: stop them all
	recovered        // new clients may start
	restart          // the daemon must be replaced
	fatal            // MPS can't recover on this GPU
)

// monitor turns observations into changes. A server in FAULT accepts no new clients until all its clients have
// exited. Then it creates its contexts again and becomes ACTIVE. monitor does no I/O and reads no clock.
type monitor struct {
	pace     pace
	inFault  bool
	since    time.Time // of the fault, or of the last restart in it
	restarts int
	misses   int
	clients  map[int]int // number by server pid, at the last poll with an answer
}

// see adds the next observation. It returns the change and, for faulted, restart and fatal, the reason.
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
		return m.wait(o.at, m.pace.patience, "the MPS server has not become active again")
	}
	return nothing, ""
}

// seeNothing adds an observation without an answer.
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

// calm reports whether the last poll was answered and found no fault.
func (m *monitor) calm() bool { return !m.inFault && m.misses == 0 }

func (m *monitor) begin(at time.Time) { m.inFault, m.since, m.restarts = true, at, 0 }

// wait returns nothing until patience ends, then restart, and fatal after mostRestarts restarts.
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

// trouble describes the servers' fault in one line. It returns "" if they are healthy.
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
			return fmt.Sprintf("the MPS server %d ended while it had clients", pid)
		}
	}
	return ""
}

// ready reports whether new clients can connect: all servers are active, or there is none and the daemon will start
// one.
func ready(servers []server) bool {
	for _, s := range servers {
		if s.status != statusActive {
			return false
		}
	}
	return true
}
