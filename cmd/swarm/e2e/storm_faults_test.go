package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sapo-swarm/swarm/internal/fail"
)

// downWait bounds the wait for the end of a coordinator, or of all of a home's processes.
const downWait = 90 * time.Second

func killEngine(s *storm, f fault) error { return s.signalNode(engineProcess, f.node, syscall.SIGKILL) }
func killNode(s *storm, f fault) error   { return s.signalNode(nodeProcess, f.node, syscall.SIGKILL) }
func stopEngine(s *storm, f fault) error { return s.signalNode(engineProcess, f.node, syscall.SIGSTOP) }
func stopNode(s *storm, f fault) error   { return s.signalNode(nodeProcess, f.node, syscall.SIGSTOP) }

func killEngineHost(s *storm, f fault) error {
	pid, err := engineHostProcess(s)
	if err != nil {
		return err
	}
	return s.signalTo(pid, syscall.SIGKILL)
}

// stopEngineHost stops the engine host without continuing it: its coordinator must do that. It also kills an engine,
// whose replacement must start without waiting for the host.
func stopEngineHost(s *storm, f fault) error {
	pid, err := engineHostProcess(s)
	if err != nil {
		return err
	}
	if err := s.signalTo(pid, syscall.SIGSTOP); err != nil {
		return err
	}
	return killEngine(s, f)
}

func (s *storm) signalNode(find func(*storm, int) (int, error), node int, signal syscall.Signal) error {
	pid, err := find(s, node)
	if err != nil {
		return err
	}
	return s.signalTo(pid, signal)
}

func killCoordinator(s *storm, f fault) error {
	pid, err := coordinatorProcess(s)
	if err != nil {
		return err
	}
	s.keeper.excuse(128 + int(syscall.SIGKILL))
	if err := s.signalTo(pid, syscall.SIGKILL); err != nil {
		return err
	}
	return s.gone(pid)
}

// killEverything simulates a reboot for the processes.
func killEverything(s *storm, f fault) error {
	pid, err := coordinatorProcess(s)
	if err != nil {
		return err
	}
	return s.killAll(pid, f)
}

func (s *storm) killAll(pid int, f fault) error {
	s.keeper.excuse(128 + int(syscall.SIGKILL))
	all := processes(s.home)
	f.random().Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	for _, pid := range all {
		if err := s.signalTo(pid, syscall.SIGKILL); err != nil {
			return err
		}
	}
	return s.gone(pid)
}

// terminateCoordinator simulates a spot VM's notice: an orderly stop within 25 seconds.
func terminateCoordinator(s *storm, f fault) error {
	const notice = 25 * time.Second
	pid, err := coordinatorProcess(s)
	if err != nil {
		return err
	}
	s.keeper.excuse(128 + int(syscall.SIGTERM))
	began := time.Now()
	if err := s.signalTo(pid, syscall.SIGTERM); err != nil {
		return err
	}
	if err := s.gone(pid); err != nil {
		return err
	}
	took := time.Since(began)
	s.slowestStop = max(s.slowestStop, took)
	if took > notice {
		return fmt.Errorf("the orderly stop took %.1f s", took.Seconds())
	}
	return nil
}

// gone waits until the keeper has seen a coordinator end.
func (s *storm) gone(pid int) error {
	ctx, cancel := context.WithTimeout(s.ctx, downWait)
	defer cancel()
	return s.keeper.until(ctx, fmt.Sprintf("end of coordinator %d", pid), func() bool { return s.keeper.pid != pid })
}

func stopCoordinator(s *storm, f fault) error {
	pid, err := coordinatorProcess(s)
	if err != nil {
		return err
	}
	if err := s.signalTo(pid, syscall.SIGSTOP); err != nil {
		return err
	}
	s.later(f.hold, func() error { return s.signalTo(pid, syscall.SIGCONT) })
	return nil
}

func closePipe(find func(*storm, int) (int, error), fd int) func(*storm, fault) error {
	return func(s *storm, f fault) error {
		pid, err := find(s, f.node)
		if err != nil {
			return err
		}
		if err := closeDescriptor(pid, fd); err != nil && !errors.Is(err, syscall.ESRCH) && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, syscall.EBADF) {
			if s.alive(pid) {
				return err
			}
		}
		return nil
	}
}

func (s *storm) alive(pid int) bool {
	for _, p := range processes(s.home) {
		if p == pid {
			return true
		}
	}
	return false
}

// limitMemory limits an engine's address space for a while: further allocations fail, as on a host without memory.
func limitMemory(s *storm, f fault) error {
	pid, err := engineProcess(s, f.node)
	if err != nil {
		return err
	}
	var before unix.Rlimit
	if err := unix.Prlimit(pid, unix.RLIMIT_AS, nil, &before); err != nil {
		return s.unlessGone(pid, err)
	}
	// Fail either every further allocation or all but small ones.
	tight := unix.Rlimit{Cur: 64 << 20, Max: before.Max}
	if f.random().IntN(2) == 0 {
		has, err := statusValue(pid, "VmSize")
		if err != nil {
			return s.unlessGone(pid, err)
		}
		tight.Cur = uint64(has) + 256<<10
	}
	if err := unix.Prlimit(pid, unix.RLIMIT_AS, &tight, nil); err != nil {
		return s.unlessGone(pid, err)
	}
	s.later(f.hold, func() error { return s.unlessGone(pid, unix.Prlimit(pid, unix.RLIMIT_AS, &before, nil)) })
	return nil
}

// unlessGone returns err, or nil if the process has ended meanwhile.
func (s *storm) unlessGone(pid int, err error) error {
	if err == nil || errors.Is(err, unix.ESRCH) || !s.alive(pid) {
		return nil
	}
	return fmt.Errorf("process %d: %w", pid, err)
}

// fillDisk leaves little or no space on the home's disk until the run has stopped.
func fillDisk(s *storm, f fault) error {
	pid, err := coordinatorProcess(s)
	if err != nil {
		return err
	}
	s.keeper.excuse(fail.ExitFailed)
	s.keeper.change(func() { s.keeper.held = true })
	defer s.keeper.change(func() { s.keeper.held = false })
	ballast := filepath.Join(s.home, "ballast")
	defer os.Remove(ballast)
	leave := []int64{0, 64 << 10, 16 << 20}[f.random().IntN(3)]
	if err := fillUp(ballast, s.home, leave); err != nil {
		return err
	}
	return s.gone(pid)
}

// fillUp writes a file until the disk has at most leave bytes free.
func fillUp(path, dir string, leave int64) error {
	file, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("ballast: %w", err)
	}
	defer file.Close()
	block := make([]byte, 1<<20)
	for {
		var disk syscall.Statfs_t
		if err := syscall.Statfs(dir, &disk); err != nil {
			return fmt.Errorf("ballast: %w", err)
		}
		free := int64(disk.Bavail)*disk.Bsize - leave
		if free <= 0 {
			return nil
		}
		if _, err := file.Write(block[:min(free, int64(len(block)))]); errors.Is(err, syscall.ENOSPC) {
			return nil
		} else if err != nil {
			return fmt.Errorf("ballast: %w", err)
		}
	}
}

// wipeExchangeDown removes the message bus's store while no process runs.
func wipeExchangeDown(s *storm, f fault) error {
	return s.whileDown(func() error { return os.RemoveAll(s.exchangeDir()) })
}

func wipeExchangeAtWork(s *storm, f fault) error {
	if _, err := coordinatorProcess(s); err != nil {
		return err
	}
	// The server creates files there meanwhile. If the folder isn't empty at the last moment, that is fine.
	if err := os.RemoveAll(s.exchangeDir()); err != nil && !errors.Is(err, syscall.ENOTEMPTY) {
		return fmt.Errorf("wipe the exchange: %w", err)
	}
	return nil
}

// whileDown kills the coordinator, waits until all its processes have ended, and calls what before the next start.
func (s *storm) whileDown(what func() error) error {
	// The previous fault may have just ended the coordinator. While held, the keeper would not start it.
	if _, err := coordinatorProcess(s); err != nil {
		return err
	}
	pid := 0
	s.keeper.change(func() { s.keeper.held, pid = true, s.keeper.pid })
	defer s.keeper.change(func() { s.keeper.held = false })
	if pid != 0 {
		if err := s.killAll(pid, fault{}); err != nil {
			return err
		}
	}
	if err := pollFor(downWait, "end of the run's processes", func() (bool, error) { return len(processes(s.home)) == 0, nil }); err != nil {
		return err
	}
	return what()
}
