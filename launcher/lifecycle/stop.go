package lifecycle

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/layout"
	"github.com/sapo-swarm/swarm/launcher/mps"
	"github.com/sapo-swarm/swarm/launcher/supervise"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// OrphanTerm is the time between SIGTERM and SIGKILL for a process that a dead coordinator left behind.
const OrphanTerm = 3 * time.Second

const (
	PollInterval = 50 * time.Millisecond  // between two checks of a process that is stopping
	SignalGap    = 500 * time.Millisecond // between the two signals of --now: pending signals would merge into one
	killWait     = 5 * time.Second        // for a killed process to disappear
)

// AskedFile is a file in the folder of a run that has been asked to stop. It names the process that was asked.
// Without it, a second swarm down would send a second signal, which means an immediate stop.
const AskedFile = "stopping.json"

// Stop is a run that is being stopped.
type Stop struct {
	Run     store.Run
	dir     string
	id      supervise.Identity
	process *os.Process
	Service string // systemd service, which may start it again
	Now     bool   // do not wait for steps and checkpoints

	began   time.Time
	Took    time.Duration
	Ended   bool
	Killed  bool // it had to be killed
	Orphans int  // number of leftover processes that were ended
	err     error
}

// NewStop names the process to stop. Go's process handle stays valid if the kernel reuses the pid.
func NewStop(home layout.Home, run store.Run, now bool) *Stop {
	s := &Stop{Run: run, dir: home.Run(run.Run), id: Identity(run), Now: now, began: time.Now()}
	s.Service = serviceOf(run.PID)
	s.process, s.err = os.FindProcess(run.PID)
	return s
}

// signal sends signals if the process is still the coordinator.
func (s *Stop) signal(signals ...syscall.Signal) {
	for _, signal := range signals {
		if s.err != nil || !s.id.Alive() {
			return
		}
		err := s.process.Signal(signal)
		if errors.Is(err, os.ErrPermission) {
			s.err = fail.Hint(fmt.Errorf("stop %s: process %d belongs to another user", s.Run.Run, s.Run.PID), "swarm down as that user, or as root")
		} else if err != nil && !errors.Is(err, os.ErrProcessDone) {
			s.err = fmt.Errorf("stop %s: %w", s.Run.Run, err)
		}
	}
}

// ask asks the coordinator to stop cleanly, unless it has already been asked. It also wakes a suspended coordinator
// (ctrl+z).
func (s *Stop) ask() {
	var before supervise.Identity
	data, err := os.ReadFile(filepath.Join(s.dir, AskedFile))
	if err == nil && json.Unmarshal(data, &before) == nil && before == s.id && !s.Now {
		s.signal(syscall.SIGCONT)
		return
	}
	if data, err = json.Marshal(s.id); err == nil {
		// without the file, as on a full disk, the run stops too
		_ = os.WriteFile(filepath.Join(s.dir, AskedFile), append(data, '\n'), 0o600)
	}
	s.signal(syscall.SIGTERM, syscall.SIGCONT)
}

// Await stops all runs, kills those that do not end within limit, and returns once none is left. It calls report
// about once a second.
func Await(ctx context.Context, stops []*Stop, limit time.Duration, report func(time.Duration, []*Stop)) []error {
	began := time.Now()
	for _, s := range stops {
		s.ask()
	}
	var failures []error
	ticker := time.NewTicker(PollInterval)
	defer ticker.Stop()
	told := began
	again := false // the second signal has been sent
	for {
		waited := time.Since(began)
		var left []*Stop
		for _, s := range stops {
			if s.step(waited) {
				left = append(left, s)
			}
		}
		if len(left) == 0 {
			break
		}
		if !again && waited >= SignalGap {
			again = true
			for _, s := range left {
				if s.Now {
					s.signal(syscall.SIGTERM, syscall.SIGCONT)
				}
			}
		}
		if waited >= limit {
			for _, s := range left {
				failures = append(failures, s.kill(ctx))
			}
			break
		}
		if time.Since(told) >= time.Second {
			told = time.Now()
			report(waited, left)
		}
		<-ticker.C
	}
	for _, s := range stops {
		failures = append(failures, s.err)
		os.Remove(filepath.Join(s.dir, AskedFile))
		if s.process != nil {
			s.process.Release()
		}
	}
	return failures
}

// step reports whether the run is still stopping.
func (s *Stop) step(waited time.Duration) bool {
	if s.Ended || s.err != nil {
		return false
	}
	if !s.id.Alive() {
		s.Ended, s.Took = true, waited
	}
	return !s.Ended
}

// kill kills a coordinator that did not stop, and ends what it leaves behind. Its nodes exit when their stdin
// closes. SweepRun ends the rest.
func (s *Stop) kill(ctx context.Context) error {
	s.Killed = true
	s.signal(syscall.SIGKILL)
	for limit := time.Now().Add(killWait); s.id.Alive(); time.Sleep(PollInterval) {
		if time.Now().After(limit) {
			return fail.Hint(
				fmt.Errorf("process %d of %s cannot be killed: it waits in the kernel, usually for a disk or a driver", s.Run.PID, s.Run.Run),
				"again later; if the process stays, restart the machine, then: swarm resume "+s.Run.Run)

		}
	}
	s.Ended, s.Took = true, time.Since(s.began)
	var err error
	s.Orphans, err = SweepRun(ctx, s.dir)
	return err
}

// SweepRun ends the processes and MPS daemons that a dead coordinator left in a run's folder, and returns their
// number.
func SweepRun(ctx context.Context, dir string) (int, error) {
	if _, err := os.Stat(dir); err != nil {
		return 0, nil
	}
	orphans, err := supervise.SweepOrphans(ctx, dir, OrphanTerm)
	daemons, mpsErr := mps.Sweep(ctx, dir)
	return len(orphans) + len(daemons), errors.Join(err, mpsErr)
}

// Describe returns what the run is doing at the moment, for people.
func (s *Stop) Describe(ctx context.Context, reader *store.Reader) string {
	status, err := Status(ctx, reader, s.Run.Run)
	if err != nil {
		return s.Run.Run
	}
	var order []string
	counts := map[string]int{}
	for _, n := range status.Nodes {
		if counts[n.State]++; counts[n.State] == 1 {
			order = append(order, n.State)
		}
	}
	for i, state := range order {
		order[i] = strconv.Itoa(counts[state]) + " " + state
	}
	return fmt.Sprintf("%s at round %d of %d, nodes %s", s.Run.Run, status.Round, status.Rounds, strings.Join(order, ", "))
}

// serviceOf returns the systemd service in which a process runs, if the service belongs to swarm.
func serviceOf(pid int) string {
	data, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cgroup"))
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(data)) {
		name := path.Base(strings.TrimSpace(line))
		if strings.HasPrefix(name, "swarm") && strings.HasSuffix(name, ".service") {
			return name
		}
	}
	return ""
}
