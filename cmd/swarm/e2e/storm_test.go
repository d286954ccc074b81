package e2e

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Flags that make chaos sets. The defaults are the short storm of every test run.
var (
	stormFaults   = flag.Int("storm.faults", 10, "faults of the storm")
	stormSeed     = flag.Uint64("storm.seed", 3, "seed of the storm")
	stormStep     = flag.Int("storm.step", 3, "rounds between two faults")
	stormOnly     = flag.String("storm.only", "", "kinds of faults, separated by commas, whose name holds one of these; all")
	stormProgress = flag.Bool("storm.progress", false, "print each fault as it happens")
)

const (
	stormNodes = 4
	stormRun   = "e-1"

	// stormStall is the maximum wait for a round. It allows for a replay from the first round.
	stormStall = 4 * time.Minute
)

// storm is one run with faults.
type storm struct {
	t      *testing.T
	ctx    context.Context
	home   string
	disk   error // why home is not on its own disk; nil: it is
	keeper *keeper
	began  time.Time

	pending     sync.WaitGroup // undo actions of faults
	mu          sync.Mutex
	undone      []error // errors of undo actions
	records     []faultRecord
	slowestStop time.Duration
}

// faultRecord is the result of a fault.
type faultRecord struct {
	fault    fault
	at       time.Duration // since the storm began
	recovery time.Duration // until every node had reported a round that no node had reported before the fault
}

func (s *storm) runDir() string      { return filepath.Join(s.home, "runs", stormRun) }
func (s *storm) exchangeDir() string { return filepath.Join(s.runDir(), "exchange") }
func (s *storm) nodeDir(node int) string {
	return filepath.Join(s.runDir(), "node_"+strconv.Itoa(node))
}

// A run of four nodes through a storm of faults ends exactly like an undisturbed run: rewards, weights and database
// rows are equal, and no process or file is left. faultKinds lists the faults. make chaos runs long storms.
func TestStorm(t *testing.T) {
	t.Parallel()
	rounds := *stormStep*(*stormFaults+2) + 2
	args := append([]string{"up", "-o", "json", "--name", "e"}, tinyRun("--nodes", strconv.Itoa(stormNodes), "--rounds", strconv.Itoa(rounds),
		"--checkpoint-every", "4", "--seed", "7", "--max-restarts", "100000", "--set", "barrier_deadline=900",
		"--set", "eval_questions=6", "--set", "eval_every=3")...)
	calm := t.TempDir()
	t.Logf("storm: seed %d, %d faults over %d rounds, program %s", *stormSeed, *stormFaults, rounds, stormProgram())
	calmTime := calmRun(t, calm, args, rounds)

	s := &storm{t: t, began: time.Now()}
	s.home, s.disk = stormHome(t)
	s.keeper = newKeeper(s.home, stormEnviron(t, s.home), args)
	faults := drawFaults(*stormSeed, *stormFaults, stormNodes, s.usableKinds())
	err := s.rage(faults)
	took := time.Since(s.began)
	t.Log(s.table(took, calmTime))
	if err == nil && s.odd() == nil {
		err = verdict(t, calm, s.home, rounds)
	}
	if err = errors.Join(err, s.odd()); err != nil {
		s.explain(err)
	}
}

// calmRun runs the undisturbed run and returns its duration.
func calmRun(t *testing.T, home string, args []string, rounds int) time.Duration {
	t.Helper()
	began := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute+time.Duration(rounds)*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, stormProgram(), append([]string{"--home", home}, args...)...)
	cmd.Env, cmd.WaitDelay = stormEnviron(t, home), 10*time.Second
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out[max(0, len(out)-2000):]))
	return time.Since(began)
}

// stormHome makes a folder for the run, on its own file system if mounting is permitted.
func stormHome(t *testing.T) (string, error) {
	t.Helper()
	home, err := os.MkdirTemp("", "swarm-storm-")
	require.NoError(t, err)
	mounted := syscall.Mount("tmpfs", home, "tmpfs", 0, "size=700m")
	t.Cleanup(func() {
		for _, pid := range processes(home) {
			syscall.Kill(pid, syscall.SIGKILL)
		}
		if t.Failed() {
			kept := home + "-kept"
			_ = os.Remove(filepath.Join(home, "ballast"))
			t.Logf("the home is kept: %s (%v)", kept, os.CopyFS(kept, os.DirFS(home)))
		}
		if mounted == nil {
			_ = syscall.Unmount(home, syscall.MNT_DETACH)
		}
		_ = os.RemoveAll(home)
	})
	return home, mounted
}

func ownDisk(s *storm) error { return s.disk }

// usableKinds returns the requested kinds of faults that are possible on this machine.
func (s *storm) usableKinds() []*faultKind {
	var kinds []*faultKind
	for _, k := range faultKinds() {
		wanted := *stormOnly == ""
		for part := range strings.SplitSeq(*stormOnly, ",") {
			wanted = wanted || part != "" && strings.Contains(k.name, part)
		}
		if !wanted {
			continue
		}
		if k.usable != nil {
			if err := k.usable(s); err != nil {
				s.t.Logf("left out: %s: %v", k.name, err)
				continue
			}
		}
		kinds = append(kinds, k)
	}
	require.NotEmpty(s.t, kinds, "no kind of fault is called %q", *stormOnly)
	return kinds
}

// rage keeps the run going and applies faults until the run is done.
func (s *storm) rage(faults []fault) error {
	ctx, end := context.WithCancelCause(s.t.Context())
	defer end(nil)
	s.ctx = ctx
	var group sync.WaitGroup
	var keeping error
	group.Go(func() {
		keeping = s.keeper.serve(ctx)
		if keeping != nil {
			end(keeping)
		}
	})
	err := s.disturb(faults)
	if err == nil {
		err = s.awaitFront(ctx, 1<<30, "end of the run")
	}
	if err != nil {
		end(err)
	}
	s.pending.Wait()
	group.Wait()
	return err
}

// disturb applies the faults one after the other, each when the swarm has reached its round.
func (s *storm) disturb(faults []fault) error {
	for i, f := range faults {
		if !f.together {
			if err := s.awaitFront(s.ctx, i**stormStep+1, "turn of fault "+f.String()); err != nil {
				return err
			}
			select {
			case <-time.After(f.delay):
			case <-s.ctx.Done():
				return context.Cause(s.ctx)
			}
		}
		s.announce(f, len(faults))
		if err := f.kind.apply(s, f); err != nil {
			return fmt.Errorf("fault %s: %w", f, err)
		}
		s.watchRecovery(f)
	}
	return nil
}

// awaitFront waits until every node has reported that many rounds, or the run is over. A swarm without a new round
// for stormStall is stuck.
func (s *storm) awaitFront(ctx context.Context, front int, what string) error {
	for {
		seen := -1
		bounded, cancel := context.WithTimeoutCause(ctx, stormStall, fmt.Errorf("no new round within %s", stormStall))
		over := false
		err := s.keeper.until(bounded, what, func() bool {
			now := s.keeper.front(stormNodes)
			if seen < 0 {
				seen = now
			}
			over = s.keeper.done || now >= front
			return over || now > seen
		})
		cancel()
		if err != nil || over {
			return err
		}
	}
}

// later undoes a fault after a time, or when the storm ends.
func (s *storm) later(after time.Duration, undo func() error) {
	s.pending.Go(func() {
		select {
		case <-time.After(after):
		case <-s.ctx.Done():
		}
		if err := undo(); err != nil {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.undone = append(s.undone, err)
		}
	})
}

// watchRecovery records when every node has passed the swarm's furthest round at the time of a fault.
func (s *storm) watchRecovery(f fault) {
	at := time.Now()
	s.keeper.mu.Lock()
	goal := s.keeper.furthest() + 1
	s.keeper.mu.Unlock()
	s.mu.Lock()
	index := len(s.records)
	s.records = append(s.records, faultRecord{fault: f, at: at.Sub(s.began)})
	s.mu.Unlock()
	s.pending.Go(func() {
		if s.awaitFront(s.ctx, goal, "recovery") == nil {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.records[index].recovery = time.Since(at)
		}
	})
}

// odd returns everything that no fault explains.
func (s *storm) odd() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	errs := append([]error(nil), s.undone...)
	for _, o := range s.keeper.odd {
		errs = append(errs, errors.New(o))
	}
	if len(s.records) < *stormFaults {
		errs = append(errs, fmt.Errorf("only %d of %d faults came before the run's end", len(s.records), *stormFaults))
	}
	return errors.Join(errs...)
}
