package netlab

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// mtu is Ethernet's MTU, so TCP segments have realistic sizes.
const mtu = 1500

// namespace is a network namespace without a name. The kernel keeps it while its file is open or a process is in it.
type namespace struct{ file *os.File }

// newNamespace creates a namespace and brings its loopback interface up.
func newNamespace() (*namespace, error) {
	type made struct {
		file *os.File
		err  error
	}
	result := make(chan made)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread must end with its namespace
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			result <- made{err: fmt.Errorf("make a network namespace: %w", err)}
			return
		}
		file, err := os.Open(fmt.Sprintf("/proc/self/task/%d/ns/net", unix.Gettid()))
		if err == nil {
			err = configure("lo", netip.Addr{})
		}
		result <- made{file, err}
	}()
	m := <-result
	if m.err != nil {
		return nil, m.err
	}
	return &namespace{m.file}, nil
}

// inside calls f on a thread in the namespace. The namespace then has the sockets that f opens and the processes that
// it starts, except those of other goroutines.
func (n *namespace) inside(f func() error) error {
	result := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: a thread that can't switch back must not be reused
		err := unix.Setns(int(n.file.Fd()), unix.CLONE_NEWNET)
		if err == nil {
			err = f()
		}
		result <- err
	}()
	return <-result
}

// openTUN creates the namespace's TUN interface with an address. The kernel's packets are read from the returned file,
// and packets written to the file go to the kernel.
func (n *namespace) openTUN(address netip.Addr) (*os.File, error) {
	var file *os.File
	err := n.inside(func() error {
		fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
		if err != nil {
			return fmt.Errorf("open /dev/net/tun: %w", err)
		}
		request, err := unix.NewIfreq("lab0")
		if err == nil {
			request.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
			err = unix.IoctlIfreq(fd, unix.TUNSETIFF, request)
		}
		if err == nil {
			err = configure("lab0", address)
		}
		if err != nil {
			return errors.Join(fmt.Errorf("make a TUN interface: %w", err), unix.Close(fd))
		}
		file = os.NewFile(uintptr(fd), "lab0")
		return nil
	})
	return file, err
}

// configure brings up an interface in the calling thread's namespace. It sets the address, in a /24 network, and the
// MTU, unless address is invalid.
func configure(name string, address netip.Addr) error {
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(socket)
	request, err := unix.NewIfreq(name)
	if err != nil {
		return err
	}
	set := func(what uint, bytes [4]byte) error {
		if err := request.SetInet4Addr(bytes[:]); err != nil {
			return err
		}
		return unix.IoctlIfreq(socket, what, request)
	}
	if address.IsValid() {
		if err := errors.Join(set(unix.SIOCSIFADDR, address.As4()), set(unix.SIOCSIFNETMASK, [4]byte{255, 255, 255, 0})); err != nil {
			return fmt.Errorf("address of %s: %w", name, err)
		}
		request.SetUint32(mtu)
		if err := unix.IoctlIfreq(socket, unix.SIOCSIFMTU, request); err != nil {
			return fmt.Errorf("MTU of %s: %w", name, err)
		}
	}
	request.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(socket, unix.SIOCSIFFLAGS, request); err != nil {
		return fmt.Errorf("bring %s up: %w", name, err)
	}
	return nil
}

// id returns the inode number that identifies the namespace.
func (n *namespace) id() (uint64, error) {
	var stat unix.Stat_t
	if err := unix.Fstat(int(n.file.Fd()), &stat); err != nil {
		return 0, err
	}
	return stat.Ino, nil
}
