package e2e

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/stats"
)

// running is a swarm up -o json whose events a test follows.
type running struct {
	t      *testing.T
	home   string
	cmd    *exec.Cmd
	stderr *lockedBuffer

	mu      sync.Mutex
	more    chan struct{} // closed when an event arrives or stdout ends
	events  []event.Event
	summary *stats.Summary
	read    chan struct{} // closed at stdout's end
}

// start starts up -o json with the tiny run's flags and more.
func start(t *testing.T, home string, more ...string) *running {
	t.Helper()
	return startCommand(t, home, append([]string{"up", "-o", "json", "--name", "e"}, tinyRun(more...)...)...)
}

// startCommand starts a command that prints events.
func startCommand(t *testing.T, home string, args ...string) *running {
	t.Helper()
	r := &running{t: t, home: home, cmd: swarmCommand(t, home, args...), stderr: &lockedBuffer{}, more: make(chan struct{}), read: make(chan struct{})}
	r.cmd.Env = append(r.cmd.Env, marker(home))
	r.cmd.Stderr = r.stderr
	stdout, write, err := os.Pipe()
	require.NoError(t, err)
	r.cmd.Stdout = write
	require.NoError(t, r.cmd.Start())
	write.Close()
	go r.follow(stdout)
	t.Cleanup(func() {
		for _, pid := range processes(home) {
			syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	return r
}

func (r *running) follow(stdout *os.File) {
	defer stdout.Close()
	lines := bufio.NewReader(stdout)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			close(r.read)
			return
		}
		var kind struct {
			Type event.Type `json:"type"`
		}
		r.mu.Lock()
		switch {
		case json.Unmarshal(line, &kind) != nil:
			r.t.Errorf("not a JSON event: %s", line)
		case r.summary != nil:
			r.t.Errorf("a line after the summary: %s", line)
		case kind.Type == event.TypeSummary:
			r.summary = new(stats.Summary)
			if err := json.Unmarshal(line, r.summary); err != nil {
				r.t.Errorf("summary: %v: %s", err, line)
			}
		default:
			var e event.Event
			if err := json.Unmarshal(line, &e); err != nil {
				r.t.Errorf("%v: %s", err, line)
			}
			r.events = append(r.events, e)
		}
		close(r.more)
		r.more = make(chan struct{})
		r.mu.Unlock()
	}
}

// await waits for an event, including past ones, and returns it.
func (r *running) await(what string, wanted func(event.Event) bool) event.Event {
	r.t.Helper()
	limit := time.After(patience)
	for {
		r.mu.Lock()
		events, more := r.events, r.more // append-only
		r.mu.Unlock()
		if at := slices.IndexFunc(events, wanted); at >= 0 {
			return events[at]
		}
		select {
		case <-more:
		case <-r.read:
			r.t.Fatalf("the run ended before %s\n%s", what, r.stderr.String())
		case <-limit:
			r.t.Fatalf("no %s within %s\n%s", what, patience, r.stderr.String())
		}
	}
}

// awaitRound waits until a node has done that many rounds.
func (r *running) awaitRound(node string, rounds int) {
	r.t.Helper()
	r.await("round "+strconv.Itoa(rounds)+" of "+node, func(e event.Event) bool {
		return e.Type == event.TypeRound && e.Node == node && e.Round.Round+1 >= rounds
	})
}

// engine returns the PID of a node's engine, as the node reported it.
func (r *running) engine(node string) int {
	r.t.Helper()
	return r.await("load of "+node, func(e event.Event) bool { return e.Type == event.TypeLoaded && e.Node == node }).Loaded.EnginePID
}

// node returns the PID of a node, as the coordinator reported it. The database has it a moment later.
func (r *running) node(name string) int {
	r.t.Helper()
	return r.await("start of "+name, func(e event.Event) bool { return e.Type == event.TypeSpawn && e.Node == name }).PID
}

// wait waits for the end and returns the exit code.
func (r *running) wait() int {
	r.t.Helper()
	code := waitFor(r.t, r.cmd)
	<-r.read
	return code
}
