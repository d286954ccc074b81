package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sapo-swarm/swarm/metrics/event"
)

// keeper repeats the same command whenever it ends before all rounds are done.
type keeper struct {
	home string
	args []string // after --home
	env  []string

	mu       sync.Mutex
	changed  chan struct{} // closed at every event, start and end
	pid      int           // of the coordinator; 0: none
	held     bool          // don't start it for now
	excused  map[int]bool  // exit codes that faults since the last start may have caused
	attempts int
	rounds   map[string]int // node -> rounds reported
	loads    int
	steps    int // steps of the memory ladder
	replayed int // rounds replayed
	warnings map[string]int
	odd      []string // exits that no fault explains
	done     bool
}

func newKeeper(home string, env, args []string) *keeper {
	return &keeper{
		home: home, args: args, env: env, changed: make(chan struct{}), excused: map[int]bool{}, rounds: map[string]int{}, warnings: map[string]int{},
	}
}

// tell wakes all waiting goroutines. The caller holds the lock.
func (k *keeper) tell() {
	close(k.changed)
	k.changed = make(chan struct{})
}

// until waits for a condition on the keeper's state, or for ctx.
func (k *keeper) until(ctx context.Context, what string, holds func() bool) error {
	for {
		k.mu.Lock()
		good, changed := holds(), k.changed
		k.mu.Unlock()
		if good {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", what, context.Cause(ctx))
		}
	}
}

// change changes state that until's condition may depend on.
func (k *keeper) change(how func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	how()
	k.tell()
}

// excuse records that a fault may end the coordinator with one of these codes.
func (k *keeper) excuse(codes ...int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, c := range codes {
		k.excused[c] = true
	}
}

// oddEnds is the number of unexplained exits after which a storm fails at once.
const oddEnds = 5

// serve repeats the command until it has succeeded.
func (k *keeper) serve(ctx context.Context) error {
	for {
		if err := k.until(ctx, "start", func() bool { return !k.held }); err != nil {
			return err
		}
		code, stderr, err := k.attempt(ctx)
		if err != nil || ctx.Err() != nil {
			return errors.Join(err, context.Cause(ctx))
		}
		excused := false
		k.change(func() {
			k.done = code == 0
			if excused = k.excused[code]; code != 0 && !excused {
				k.odd = append(k.odd, fmt.Sprintf("attempt %d ended with %d: %s", k.attempts, code, strings.TrimSpace(stderr)))
			}
			clear(k.excused)
		})
		if code == 0 {
			return nil
		}
		if len(k.odd) >= oddEnds {
			return fmt.Errorf("the command ended %d times for no reason:\n%s", oddEnds, strings.Join(k.odd, "\n"))
		}
	}
}

// attempt runs the command once.
func (k *keeper) attempt(ctx context.Context) (code int, stderr string, err error) {
	cmd := exec.CommandContext(ctx, stormProgram(), append([]string{"--home", k.home}, k.args...)...)
	cmd.Env = k.env
	cmd.WaitDelay = 30 * time.Second
	var log strings.Builder
	cmd.Stderr = &log
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 0, "", err
	}
	if err := cmd.Start(); err != nil {
		return 0, "", err
	}
	k.change(func() {
		k.pid = cmd.Process.Pid
		k.attempts++
	})
	k.follow(out)
	err = cmd.Wait()
	k.change(func() { k.pid = 0 })
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return 0, log.String(), err
	}
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal()), log.String(), nil
	}
	return cmd.ProcessState.ExitCode(), log.String(), nil
}

// follow records the events on a coordinator's stdout until it ends. A killed coordinator's last line may be torn.
func (k *keeper) follow(out io.Reader) {
	lines := bufio.NewReader(out)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		var e event.Event
		if json.Unmarshal(line, &e) != nil {
			continue // the summary has other fields
		}
		k.change(func() { k.see(e) })
	}
}

// see counts an event. The caller holds the lock.
func (k *keeper) see(e event.Event) {
	switch {
	case e.Type == event.TypeRound && e.Round != nil:
		k.rounds[e.Node] = max(k.rounds[e.Node], e.Round.Round+1)
	case e.Type == event.TypeLoaded && e.Loaded != nil:
		k.loads++
		k.replayed += e.Loaded.ReplayedRounds
	case e.Type == event.TypeMemoryStep:
		k.steps++
	case e.Type == event.TypeWarning, e.Type == event.TypeFailure:
		k.warnings[string(e.Type)+" "+e.Cause]++
	}
}

// front returns the rounds reported by the slowest node. The caller holds the lock.
func (k *keeper) front(nodes int) int {
	low := -1
	for i := range nodes {
		if r := k.rounds[fmt.Sprintf("node_%d", i)]; low < 0 || r < low {
			low = r
		}
	}
	return low
}

// furthest returns the rounds reported by the fastest node. The caller holds the lock.
func (k *keeper) furthest() int {
	high := 0
	for _, r := range k.rounds {
		high = max(high, r)
	}
	return high
}

// stormEnviron returns the environment of a home's commands. Its engines allocate from the kernel and return memory
// to it, like those of large models. Otherwise a memory limit would not affect a tiny engine, which has all its
// memory after the first round.
func stormEnviron(t testing.TB, home string) []string {
	env := slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "SWARM_") })
	return append(env, "SWARM_PYTHON="+usablePython(t), marker(home), "MALLOC_MMAP_THRESHOLD_=65536", "MALLOC_TRIM_THRESHOLD_=65536")
}
