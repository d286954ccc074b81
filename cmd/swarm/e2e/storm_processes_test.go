package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/sapo-swarm/swarm/launcher/supervise"
)

// victimWait bounds the wait for a process that is starting.
const victimWait = 2 * time.Minute

// eachPoll is the polling interval for things that no event reports.
const eachPoll = 5 * time.Millisecond

// errNoVictim reports that the run ended before a process for a fault existed.
var errNoVictim = errors.New("the run was over")

// pollFor waits until found returns true, for at most limit. what names the condition in the error.
func pollFor(limit time.Duration, what string, found func() (bool, error)) error {
	for deadline := time.Now().Add(limit); ; time.Sleep(eachPoll) {
		ok, err := found()
		if ok || err != nil {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("no %s within %s", what, limit)
		}
	}
}

// coordinatorProcess waits for the coordinator.
func coordinatorProcess(s *storm) (int, error) {
	pid := 0
	ctx, cancel := context.WithTimeout(s.ctx, victimWait)
	defer cancel()
	err := s.keeper.until(ctx, "coordinator", func() bool { pid = s.keeper.pid; return pid != 0 || s.keeper.done })
	if err == nil && pid == 0 {
		err = errNoVictim
	}
	return pid, err
}

// nodeProcess waits for the process of a node.
func nodeProcess(s *storm, node int) (int, error) {
	pid := 0
	err := pollFor(victimWait, fmt.Sprintf("process of node_%d", node), func() (bool, error) {
		coordinator, err := coordinatorProcess(s)
		if err != nil {
			return false, err
		}
		var record struct {
			Process supervise.Identity `json:"process"`
		}
		data, err := os.ReadFile(filepath.Join(s.nodeDir(node), supervise.PIDFileName))
		if err != nil || json.Unmarshal(data, &record) != nil || !record.Process.Alive() {
			return false, nil
		}
		pid = record.Process.PID
		return slices.Contains(childrenOf(coordinator), pid), nil
	})
	return pid, err
}

// engineProcess waits for the engine of a node.
func engineProcess(s *storm, node int) (int, error) {
	pid := 0
	err := pollFor(victimWait, fmt.Sprintf("engine of node_%d", node), func() (bool, error) {
		if _, err := nodeProcess(s, node); err != nil {
			return false, err
		}
		// Use the PID file: an engine that the engine host has forked is no child of its node.
		var record struct {
			Also []supervise.Identity `json:"also"`
		}
		data, err := os.ReadFile(filepath.Join(s.nodeDir(node), supervise.PIDFileName))
		if err != nil || json.Unmarshal(data, &record) != nil {
			return false, nil
		}
		for _, id := range record.Also {
			name, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", id.PID))
			if err == nil && id.Alive() && strings.Contains(filepath.Base(name), "python") {
				pid = id.PID
				return true, nil
			}
		}
		return false, nil
	})
	return pid, err
}

// engineHostProcess waits for the engine host of the run's coordinator.
func engineHostProcess(s *storm) (int, error) {
	pid := 0
	err := pollFor(victimWait, "engine host", func() (bool, error) {
		coordinator, err := coordinatorProcess(s)
		if err != nil {
			return false, err
		}
		var record struct {
			Process supervise.Identity `json:"process"`
		}
		data, err := os.ReadFile(filepath.Join(filepath.Dir(s.nodeDir(0)), "engine-host", supervise.PIDFileName))
		if err != nil || json.Unmarshal(data, &record) != nil || !record.Process.Alive() {
			return false, nil
		}
		pid = record.Process.PID
		return slices.Contains(childrenOf(coordinator), pid), nil
	})
	return pid, err
}

// signalTo signals a process after it has checked that the process belongs to the storm's home.
func (s *storm) signalTo(pid int, signal syscall.Signal) error {
	environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil || !strings.Contains(string(environ), marker(s.home)+"\x00") {
		return nil // it has ended by itself
	}
	if err := syscall.Kill(pid, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("signal %d to %d: %w", signal, pid, err)
	}
	return nil
}
