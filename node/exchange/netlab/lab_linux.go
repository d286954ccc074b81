package netlab

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"sync"
	"testing"
	"time"
)

// Lab is a network of hosts with a link between each two. Links start without delay, loss or rate limit.
type Lab struct {
	hosts      []*Host
	byAddress  map[netip.Addr]*Host
	directions map[[2]string]*direction
	done       chan struct{}
	running    sync.WaitGroup
}

// New creates a lab. The lab and the processes on its hosts end with the test. If namespaces can't be created, New
// skips the test with the reason. seed seeds losses and jitter.
func New(t testing.TB, seed uint64, hosts ...string) *Lab {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("network namespaces: only for root")
	}
	if _, err := os.Stat("/dev/net/tun"); err != nil {
		t.Skipf("network namespaces: %v", err)
	}
	lab, err := open(seed, hosts)
	if err != nil {
		t.Skipf("network namespaces: %v", err)
	}
	t.Cleanup(func() {
		if err := lab.close(); err != nil {
			t.Error(err)
		}
	})
	return lab
}

func open(seed uint64, names []string) (_ *Lab, err error) {
	l := &Lab{byAddress: map[netip.Addr]*Host{}, directions: map[[2]string]*direction{}, done: make(chan struct{})}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.close())
		}
	}()
	for i, name := range names {
		address := netip.AddrFrom4([4]byte{10, 213, 0, byte(i + 1)})
		host, err := newHost(name, address)
		if err != nil {
			return nil, fmt.Errorf("host %s: %w", name, err)
		}
		l.hosts, l.byAddress[address] = append(l.hosts, host), host
	}
	for i, from := range l.hosts {
		for j, to := range l.hosts {
			if i != j {
				l.directions[[2]string{from.Name, to.Name}] = newDirection(seed+uint64(i*len(names)+j), to.arrive)
			}
		}
	}
	for _, d := range l.directions {
		l.running.Go(func() { d.serve(l.done) })
	}
	for _, h := range l.hosts {
		l.running.Go(func() { l.forward(h) })
	}
	return l, nil
}

// Host returns the host with the given name.
func (l *Lab) Host(name string) *Host {
	for _, h := range l.hosts {
		if h.Name == name {
			return h
		}
	}
	panic("netlab: no host " + name)
}

// Link is the connection between two hosts.
type Link struct{ ab, ba *direction }

// Link returns the link between a and b. In Conditions, CutAB refers to the direction from a to b.
func (l *Lab) Link(a, b string) Link {
	link := Link{l.directions[[2]string{a, b}], l.directions[[2]string{b, a}]}
	if link.ab == nil || link.ba == nil {
		panic("netlab: no link " + a + "-" + b)
	}
	return link
}

// Set changes the conditions. Packets in flight keep their arrival time unless they are cut off.
func (l Link) Set(c Conditions) {
	if err := c.check(); err != nil {
		panic("netlab: " + err.Error())
	}
	l.ab.set(c, c.CutAB)
	l.ba.set(c, c.CutBA)
}

// Counts returns the counts of both directions since the lab was created.
func (l Link) Counts() (ab, ba Counts) { return l.ab.count(), l.ba.count() }

// forward routes the packets that a host sends. It drops packets to addresses outside the lab, such as the kernel's own
// IPv6 packets.
func (l *Lab) forward(from *Host) {
	buffer := make([]byte, 1<<16)
	for {
		n, err := from.tun.Read(buffer)
		if err != nil {
			return // closed
		}
		packet := buffer[:n]
		if n < 20 || packet[0]>>4 != 4 {
			continue
		}
		to, known := l.byAddress[netip.AddrFrom4([4]byte(packet[16:20]))]
		if known && to != from {
			l.directions[[2]string{from.Name, to.Name}].accept(append([]byte(nil), packet...), time.Now())
		}
	}
}

// close ends the processes on the hosts, then the hosts.
func (l *Lab) close() error {
	var errs []error
	for _, h := range l.hosts {
		errs = append(errs, h.Kill(), h.tun.Close())
	}
	close(l.done)
	l.running.Wait()
	for _, h := range l.hosts {
		errs = append(errs, h.namespace.file.Close())
	}
	return errors.Join(errs...)
}
