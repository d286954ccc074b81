// Package netlab simulates networks for tests: several hosts on one Linux machine. Each host is a network namespace
// with the kernel's own TCP. Its packets go through a router in this process that delays, drops, throttles and cuts
// them. A test can change these conditions at any time. netlab needs root and /dev/net/tun, but neither iproute2 nor
// the kernel's netem.
//
// A host disappears with its processes: namespaces have no names and no mounts, so a killed test leaves nothing behind.
package netlab
