package natsbus

import (
	"cmp"
	"crypto/subtle"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"

	"github.com/sapo-swarm/swarm/node/exchange/membership"
)

const (
	enrolUser = "enrol" // who has no credentials yet: it may ask for some, and why it was turned away

	enrolLife      = 30 * time.Second // of such a connection
	maxEnrolling   = 256              // of them at a time
	maxEnrollingOf = 16               // from one address
	maxConnections = membership.MaxNodes + 8

	nonceDigits = 32
)

// gate decides who may connect to the embedded broker and what they may do there: with the token, the run's own nodes,
// everything; a worker, under its name and secret, requests under its own subjects to the Admission, which takes and
// reads for it; enrolUser next to nothing.
//
// No worker gets a right on JetStream's API, reading included: a direct get answers to whatever subject the asker
// names, and the broker doesn't ask whether the asker may write there. The Admission passes a worker's reads on once it
// has looked at that subject.
type gate struct {
	token string
	admit func(worker, secret string) error // nil: no workers
	alive func(id uint64) bool              // whether a connection is still there

	mu        sync.Mutex
	workers   map[string][]uint64 // connections, by worker's token
	enrolling []newcomer
	life      time.Duration // of a newcomer's connection; 0: enrolLife
}

// newcomer is a connection of enrolUser's.
type newcomer struct {
	id   uint64
	from string // its address
	at   time.Time
}

// Check implements natsserver.Authentication. The broker calls it from a connection's own goroutine.
func (g *gate) Check(c natsserver.ClientAuthentication) bool {
	if c.Kind() != natsserver.CLIENT {
		return false
	}
	switch o := c.GetOpts(); o.Username {
	case "":
		if subtle.ConstantTimeCompare([]byte(o.Token), []byte(g.token)) != 1 {
			return false
		}
		c.RegisterUser(&natsserver.User{})
	case enrolUser:
		if g.admit == nil || !isNonce(o.Name) || !g.mayEnrol(c.GetID(), sourceOf(c.RemoteAddress()), time.Now()) {
			return false
		}
		c.RegisterUser(&natsserver.User{Username: enrolUser, ConnectionDeadline: time.Now().Add(g.newcomersLife()), Permissions: allow(
			[]string{enrolSubject, whySubject}, []string{enrolInbox(o.Name) + ".>"})})
	default:
		if len(o.Username) > maxNameBytes || g.admit == nil || g.admit(o.Username, o.Password) != nil {
			return false
		}
		worker := token(o.Username)
		if !g.note(worker, c.GetID()) {
			return false
		}
		c.RegisterUser(&natsserver.User{Username: o.Username, Permissions: allow(
			[]string{workerPrefix + worker + ".>", "swarm.*.want.*.*"}, []string{inboxOf(worker) + ".>", "swarm.*.shared.>"})})
	}
	return true
}

func allow(publish, subscribe []string) *natsserver.Permissions {
	return &natsserver.Permissions{
		Publish: &natsserver.SubjectPermission{Allow: publish}, Subscribe: &natsserver.SubjectPermission{Allow: subscribe},
	}
}

// note keeps a worker's connection in mind, or says no where it has too many.
func (g *gate) note(worker string, id uint64) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	known := g.workers[worker]
	if len(known) >= maxConnections {
		open := known[:0]
		for _, id := range known {
			if g.alive(id) {
				open = append(open, id)
			}
		}
		g.workers[worker] = open
		known = open
	}
	if len(known) >= maxConnections {
		return false
	}
	g.workers[worker] = append(known, id)
	return true
}

// forget returns a worker's connections and forgets them.
func (g *gate) forget(worker string) []uint64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	ids := g.workers[worker]
	delete(g.workers, worker)
	return ids
}

// all returns all workers' connections.
func (g *gate) all() (ids []uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, some := range g.workers {
		ids = append(ids, some...)
	}
	return ids
}

// connections are a worker's that were let in and not forgotten.
func (g *gate) connections(worker string) []uint64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.workers[worker])
}

// mayEnrol lets a connection be one of enrolUser's, unless there are as many as may be, from its address or in all. One
// that is closed makes room at once.
func (g *gate) mayEnrol(id uint64, from string, now time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.crowded(from) {
		g.enrolling = slices.DeleteFunc(g.enrolling, func(n newcomer) bool { return now.Sub(n.at) > cmp.Or(g.life, enrolLife) || !g.alive(n.id) })
		if g.crowded(from) {
			return false
		}
	}
	g.enrolling = append(g.enrolling, newcomer{id, from, now})
	return true
}

// newcomersLife is how long a connection of enrolUser's may stay.
func (g *gate) newcomersLife() time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	return cmp.Or(g.life, enrolLife)
}

func (g *gate) crowded(from string) bool {
	own := 0
	for _, n := range g.enrolling {
		if n.from == from {
			own++
		}
	}
	return len(g.enrolling) >= maxEnrolling || own >= maxEnrollingOf
}

// sourceOf is whose connections count together: an IPv4 address, or the 64 bits of an IPv6 address that a network is
// given.
func sourceOf(address net.Addr) string {
	tcp, ok := address.(*net.TCPAddr)
	if !ok {
		return ""
	}
	ip, ok := netip.AddrFromSlice(tcp.IP)
	if ip = ip.Unmap(); !ok || ip.Is4() {
		return ip.String()
	}
	network, err := ip.Prefix(64)
	if err != nil {
		return ip.String()
	}
	return network.String()
}

// isNonce tells whether a name is one that nobody else guesses: answers to an enrolment go under it.
func isNonce(name string) bool {
	return len(name) == nonceDigits && strings.Trim(name, "0123456789abcdef") == ""
}
