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
	enrolUser = "enrol" // a client without credentials, which may request them or ask why it was rejected

	enrolLife      = 30 * time.Second // maximum duration of such a connection
	maxEnrolling   = 256              // such connections at a time
	maxEnrollingOf = 16               // from one address
	maxConnections = membership.MaxNodes + 8
	maxOfWorkers   = maxClients / 2 // connections of all workers, so that the coordinator's own nodes always find a place

	nonceDigits = 32
)

// gate decides who may connect to the embedded broker, and with which permissions. A client with the token, one of the
// coordinator's own nodes, may do everything. A worker with its name and secret may send requests to the Admission
// under its own subjects. enrolUser may only request credentials or ask why it was rejected.
//
// No worker has access to JetStream's API, not even for reading. A direct get answers to any subject that the client
// names, and the broker doesn't check whether the client may publish there. Instead, the Admission checks the subject
// and forwards a worker's reads.
type gate struct {
	token string
	admit func(worker, secret string) error // nil: no workers
	alive func(id uint64) bool              // reports whether a connection still exists

	mu        sync.Mutex
	workers   map[string][]uint64 // connections, also closed ones, by the worker's token
	dropped   map[string]bool     // workers whose closed connections were removed before their bytes were counted
	enrolling []newcomer
	life      time.Duration // maximum duration of a newcomer's connection; 0: enrolLife
}

// newcomer is a connection of enrolUser.
type newcomer struct {
	id   uint64
	from string // its address
	at   time.Time
}

// Check implements natsserver.Authentication. The broker calls it from the connection's own goroutine.
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

// note records a worker's connection. It returns false if the worker has too many, or all workers together.
func (g *gate) note(worker string, id uint64) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.workers[worker]) >= maxConnections {
		g.prune(worker)
	}
	if g.ofWorkers() >= maxOfWorkers {
		for each := range g.workers {
			g.prune(each)
		}
	}
	if len(g.workers[worker]) >= maxConnections || g.ofWorkers() >= maxOfWorkers {
		return false
	}
	g.workers[worker] = append(g.workers[worker], id)
	return true
}

func (g *gate) ofWorkers() (n int) {
	for _, ids := range g.workers {
		n += len(ids)
	}
	return n
}

// prune removes a worker's closed connections from the record.
func (g *gate) prune(worker string) {
	known := len(g.workers[worker])
	open := slices.DeleteFunc(g.workers[worker], func(id uint64) bool { return !g.alive(id) })
	if len(open) < known {
		if g.dropped == nil {
			g.dropped = map[string]bool{}
		}
		g.dropped[worker] = true
	}
	g.workers[worker] = open
}

// forget removes a worker's connections from the record and returns them.
func (g *gate) forget(worker string) []uint64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	ids := g.workers[worker]
	delete(g.workers, worker)
	delete(g.dropped, worker)
	return ids
}

// reset removes all workers' connections from the record. A new broker gives their ids to other connections.
func (g *gate) reset() {
	g.mu.Lock()
	defer g.mu.Unlock()
	clear(g.workers)
	clear(g.dropped)
}

// all returns the connections of all workers.
func (g *gate) all() (ids []uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, some := range g.workers {
		ids = append(ids, some...)
	}
	return ids
}

// connections returns a worker's recorded connections. whole is false if closed ones were removed since the last call.
func (g *gate) connections(worker string) (ids []uint64, whole bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	whole = !g.dropped[worker]
	delete(g.dropped, worker)
	return slices.Clone(g.workers[worker]), whole
}

// remove removes closed connections of a worker from the record.
func (g *gate) remove(worker string, closed []uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	left := slices.DeleteFunc(g.workers[worker], func(id uint64) bool { return slices.Contains(closed, id) })
	if g.workers[worker] = left; len(left) == 0 {
		delete(g.workers, worker)
	}
}

// mayEnrol records a connection of enrolUser. It returns false if there are too many, from its address or in total.
// Closed connections don't count.
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

// newcomersLife returns the maximum duration of an enrolUser connection.
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

// sourceOf returns the unit by which connections are counted: an IPv4 address, or an IPv6 network (/64).
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

// isNonce reports whether a name has the form of a random nonce. Answers to an enrolment go to an inbox with this name.
func isNonce(name string) bool {
	return len(name) == nonceDigits && strings.Trim(name, "0123456789abcdef") == ""
}
