package main

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
	"github.com/sapo-swarm/swarm/launcher/mps"
	"github.com/sapo-swarm/swarm/launcher/runlog"
	"github.com/sapo-swarm/swarm/launcher/supervise"
	"github.com/sapo-swarm/swarm/metrics/store"
)

const (
	downPoll = 50 * time.Millisecond
	downGap  = 500 * time.Millisecond // between the two signals of --now: pending ones would be taken for one
	downKill = 5 * time.Second        // for a killed process to go
)

// askedFile is in the folder of a run that has been asked to stop, and says which process was asked: to that one a second signal means
// stop now, which somebody who types swarm down twice does not mean.
const askedFile = "stopping.json"

// stopping is one run on its way to its end.
type stopping struct {
	run     store.Run
	dir     string
	id      supervise.Identity
	process *os.Process
	service string
	now     bool

	began   time.Time
	took    time.Duration
	ended   bool
	killed  bool
	orphans int
	err     error
}

// newStopping names the process to stop. Go's handle stays with the process where its pid is given to another.
func newStopping(g *globals, run store.Run, now bool) *stopping {
	s := &stopping{run: run, dir: g.home.Run(run.Run), id: identityOf(run), now: now, began: time.Now()}
	s.service = serviceOf(run.PID)
	s.process, s.err = os.FindProcess(run.PID)
	return s
}

// signal sends a signal if the process still is the coordinator.
func (s *stopping) signal(signals ...syscall.Signal) {
	for _, signal := range signals {
		if s.err != nil || !s.id.Alive() {
			return
		}
		err := s.process.Signal(signal)
		if errors.Is(err, os.ErrPermission) {
			s.err = fail.Hint(fmt.Errorf("stop %s: process %d belongs to another user", s.run.Run, s.run.PID), "swarm down as that user, or as root")
		} else if err != nil && !errors.Is(err, os.ErrProcessDone) {
			s.err = fmt.Errorf("stop %s: %w", s.run.Run, err)
		}
	}
}

// ask asks the coordinator to stop in order, unless it has been asked. One that is stopped, as by ctrl+z, is woken for it.
func (s *stopping) ask() {
	var before supervise.Identity
	data, err := os.ReadFile(filepath.Join(s.dir, askedFile))
	if err == nil && json.Unmarshal(data, &before) == nil && before == s.id && !s.now {
		s.signal(syscall.SIGCONT)
		return
	}
	if data, err = json.Marshal(s.id); err == nil {
		_ = os.WriteFile(filepath.Join(s.dir, askedFile), append(data, '\n'), 0o644) // on a full disk it stops all the same
	}
	s.signal(syscall.SIGTERM, syscall.SIGCONT)
}

// await stops all runs, kills those that don't end within limit, and returns once none is left. tell is called now and then.
func await(ctx context.Context, stops []*stopping, limit time.Duration, tell func(time.Duration, []*stopping)) []error {
	began := time.Now()
	for _, s := range stops {
		s.ask()
	}
	var failures []error
	ticker := time.NewTicker(downPoll)
	defer ticker.Stop()
	told := began
	again := false // the second signal has been sent
	for {
		waited := time.Since(began)
		var left []*stopping
		for _, s := range stops {
			if s.step(waited) {
				left = append(left, s)
			}
		}
		if len(left) == 0 {
			break
		}
		if !again && waited >= downGap {
			again = true
			for _, s := range left {
				if s.now {
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
			tell(waited, left)
		}
		<-ticker.C
	}
	for _, s := range stops {
		failures = append(failures, s.err)
		os.Remove(filepath.Join(s.dir, askedFile))
		if s.process != nil {
			s.process.Release()
		}
	}
	return failures
}

// step tells whether it has still to be waited for.
func (s *stopping) step(waited time.Duration) bool {
	if s.ended || s.err != nil {
		return false
	}
	if !s.id.Alive() {
		s.ended, s.took = true, waited
	}
	return !s.ended
}

// kill ends a coordinator that did not listen, and what it leaves behind: its nodes exit when their stdin closes, the rest is swept.
func (s *stopping) kill(ctx context.Context) error {
	s.killed = true
	s.signal(syscall.SIGKILL)
	for limit := time.Now().Add(downKill); s.id.Alive(); time.Sleep(downPoll) {
		if time.Now().After(limit) {
			return fail.Hint(
				fmt.Errorf("process %d of %s can't be killed: it waits in the kernel, mostly for a disk or a driver", s.run.PID, s.run.Run),
				"again later; if it stays, restart the machine, then: swarm resume "+s.run.Run)

		}
	}
	s.ended, s.took = true, time.Since(s.began)
	var err error
	s.orphans, err = sweepRun(ctx, s.dir)
	return err
}

// sweepRun ends the processes and MPS daemons that a dead coordinator left in a run's folder.
func sweepRun(ctx context.Context, dir string) (int, error) {
	if _, err := os.Stat(dir); err != nil {
		return 0, nil
	}
	orphans, err := supervise.SweepOrphans(ctx, dir, orphanTerm)
	daemons, mpsErr := mps.Sweep(ctx, dir)
	return len(orphans) + len(daemons), errors.Join(err, mpsErr)
}

// told is what the run does at this moment, for people.
func (s *stopping) told(ctx context.Context, reader *store.Reader) string {
	status, err := readStatus(ctx, reader, s.run.Run)
	if err != nil {
		return s.run.Run
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
	return fmt.Sprintf("%s at round %d of %d, nodes %s", s.run.Run, status.Round, status.Rounds, strings.Join(order, ", "))
}

// result is how it ended. The error is that it had to be killed though nobody asked for that.
func (s *stopping) result(ctx context.Context, g *globals, reader *store.Reader) (downRun, error) {
	d := downRun{
		Experiment: s.run.Experiment, Run: s.run.Run, PID: s.run.PID, Outcome: outcomeStopped, Seconds: s.took.Seconds(), Orphans: s.orphans,
	}
	err := d.read(ctx, g, reader)
	if !s.ended {
		d.Outcome = outcomeLeft
		return d, err
	}
	if s.killed {
		d.Outcome, d.service = outcomeKilled, s.service
		if !s.now {
			err = errors.Join(err, fail.Hint(
				fmt.Errorf("%s did not stop in order", s.run.Run), "swarm logs "+s.run.Run+" "+runlog.Coordinator+" for why"))
		}
	}
	return d, err
}

// serviceOf is the systemd service that a process runs in, where its name is one of swarm's.
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
