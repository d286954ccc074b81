// Package netlab simulates networks for tests: several hosts on one Linux machine, each a network namespace with the
// kernel's own TCP, whose packets go through a router in this process that delays, loses, throttles and cuts as the
// test says, in each direction by itself and changeable at any time. It needs root and /dev/net/tun, and neither
// iproute2 nor the kernel's netem.
//
// A host is gone with its processes: namespaces have no names and no mounts, so that nothing is left behind by a test
// that was killed.
package netlab
