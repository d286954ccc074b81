package netlab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Host is a machine of the lab as far as the network goes. It shares files and processes with the real machine.
type Host struct {
	Name    string
	Address netip.Addr

	namespace *namespace
	tun       *os.File
}

func newHost(name string, address netip.Addr) (*Host, error) {
	space, err := newNamespace()
	if err != nil {
		return nil, err
	}
	tun, err := space.openTUN(address)
	if err != nil {
		return nil, errors.Join(err, space.file.Close())
	}
	return &Host{Name: name, Address: address, namespace: space, tun: tun}, nil
}

// Start starts a command on the host.
func (h *Host) Start(cmd *exec.Cmd) error { return h.namespace.inside(cmd.Start) }

// Dial connects from the host to a numeric address.
func (h *Host) Dial(ctx context.Context, network, address string) (conn net.Conn, err error) {
	err = h.namespace.inside(func() error {
		conn, err = (&net.Dialer{}).DialContext(ctx, network, address)
		return err
	})
	return conn, err
}

// Listen listens on the host.
func (h *Host) Listen(network, address string) (listener net.Listener, err error) {
	err = h.namespace.inside(func() error {
		listener, err = net.Listen(network, address)
		return err
	})
	return listener, err
}

// killWait bounds the wait for killed processes to end.
const killWait = 20 * time.Second

// Kill simulates a power failure: it kills every process of the host and returns when all have ended. The parent of a
// process still has to Wait for it.
func (h *Host) Kill() error {
	for deadline := time.Now().Add(killWait); ; time.Sleep(5 * time.Millisecond) {
		pids, err := h.Processes()
		if err != nil || len(pids) == 0 {
			return err
		}
		for _, pid := range pids {
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
				return fmt.Errorf("kill process %d of host %s: %w", pid, h.Name, err)
			}
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("host %s: processes %v live on %s after SIGKILL", h.Name, pids, killWait)
		}
	}
}

// Processes returns the ids of the processes that run on the host.
func (h *Host) Processes() ([]int, error) {
	id, err := h.namespace.id()
	if err != nil {
		return nil, err
	}
	paths, err := filepath.Glob("/proc/[0-9]*/ns/net")
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, path := range paths {
		var stat unix.Stat_t
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(path))))
		// A process that has ended, or is a zombie, has no namespace.
		if err == nil && unix.Stat(path, &stat) == nil && stat.Ino == id && pid != os.Getpid() {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// arrive hands a packet to the host's kernel. A packet that the kernel refuses is lost, as on a real network.
func (h *Host) arrive(packet []byte) { _, _ = h.tun.Write(packet) }
