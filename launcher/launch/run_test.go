package launch

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/launcher/fit"
	"github.com/sapo-swarm/swarm/launcher/runlog"
	"github.com/sapo-swarm/swarm/launcher/supervise"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/node/protocol"
)

// swarmTest is a run of fake nodes.
type swarmTest struct {
	spec Spec
	mu   sync.Mutex
	seen []event.Event
	on   func(event.Event) // if set, called for each event
}

// newSwarmTest plans n nodes with one behavior, or with several as node_0=...;node_1=... .
func newSwarmTest(t *testing.T, n int, behaviour string) *swarmTest {
	t.Helper()
	id := fmt.Sprintf("%s-%d", strings.ReplaceAll(t.Name(), "/", "-"), os.Getpid())
	if !strings.Contains(behaviour, "=") {
		behaviour = "*=" + behaviour
	}
	st := &swarmTest{spec: fakeSpec(t.TempDir(), n, behaviour)}
	st.spec.Env = append(st.spec.Env, marker+"="+id)
	t.Cleanup(func() {
		if left := strays(t, id); len(left) > 0 {
			t.Errorf("processes left: %v", left)
		}
		for _, start := range st.spec.Starts {
			if _, err := os.Stat(filepath.Join(start.Dir, supervise.PIDFileName)); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("%s: pid file left", start.Node)
			}
		}
	})
	return st
}

func fakeSpec(dir string, n int, behaviours string) Spec {
	spec := Spec{
		Run: "run", Exe: os.Args[0], // The race detector's runtime sleeps a second before it exits.
		Env:      []string{playNode + "=" + behaviours, playLauncher + "=", "GORACE=atexit_sleep_ms=0"},
		Plan:     fit.Plan{Slots: 2},
		Restarts: supervise.Policy{MaxRestarts: 2, First: time.Millisecond, Cap: 5 * time.Millisecond},
		Stop:     quickLadder,
	}
	for i := range n {
		spec.Starts = append(spec.Starts, protocol.Start{Run: "run", Node: fit.NodeName(i), Index: i, Dir: filepath.Join(dir, fit.NodeName(i))})
	}
	return spec
}

func (st *swarmTest) sink(e event.Event) {
	st.mu.Lock()
	st.seen = append(st.seen, e)
	st.mu.Unlock()
	if st.on != nil {
		st.on(e)
	}
}

func (st *swarmTest) run(t *testing.T, ctx context.Context) (Result, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	return Run(ctx, st.spec, st.sink, slog.New(slog.DiscardHandler))
}

// of returns the events of some types from a node; "" means any node.
func (st *swarmTest) of(node string, types ...event.Type) []event.Event {
	st.mu.Lock()
	defer st.mu.Unlock()
	var found []event.Event
	for _, e := range st.seen {
		if (node == "" || e.Node == node) && slices.Contains(types, e.Type) {
			found = append(found, e)
		}
	}
	return found
}

func wantState(t *testing.T, r NodeResult, state event.State, restarts int) {
	t.Helper()
	if r.State != state || r.Restarts != restarts {
		t.Errorf("%s: %s after %d restarts (%s: %s), want %s after %d", r.Node, r.State, r.Restarts, r.Cause, r.Message, state, restarts)
	}
}

func TestNodesLoadOneAtATimeAndFinish(t *testing.T) {
	st := newSwarmTest(t, 6, "normal")
	result, err := st.run(t, t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if result.Remaining != 6 || len(result.Nodes) != 6 {
		t.Errorf("%+v", result)
	}
	for _, r := range result.Nodes {
		wantState(t, r, event.StateDone, 0)
		if got := len(st.of(r.Node, event.TypeRound)); got != fakeRounds {
			t.Errorf("%s: %d rounds", r.Node, got)
		}
		if got := len(st.of(r.Node, event.TypeExit)); got != 1 {
			t.Errorf("%s: %d exits", r.Node, got)
		}
	}
	loading := ""
	var order []string
	for _, e := range st.of("", event.TypeSpawn, event.TypeLoaded) {
		if e.Run != "run" || e.Time == 0 {
			t.Fatalf("not stamped: %+v", e)
		}
		if e.Type == event.TypeLoaded {
			loading = ""
			continue
		}
		if loading != "" {
			t.Errorf("%s was started while %s still loaded", e.Node, loading)
		}
		loading = e.Node
		order = append(order, e.Node)
	}
	if !slices.IsSorted(order) {
		t.Errorf("loaded in order %v", order)
	}
}

func TestLeasesAreWithinSlots(t *testing.T) {
	st := newSwarmTest(t, 5, "normal")
	held, most := map[string]int64{}, 0
	st.on = func(e event.Event) { // a round completes while the lease is held
		switch e.Type {
		case event.TypeRound:
			held[e.Node]++
			most = max(most, len(held))
		case event.TypeRelease, event.TypeExit:
			delete(held, e.Node)
		}
	}
	if _, err := st.run(t, t.Context()); err != nil {
		t.Fatal(err)
	}
	if most < 1 || most > 2 {
		t.Errorf("%d nodes computed at once in 2 slots", most)
	}
}

func TestDeathsAreHealed(t *testing.T) {
	for behaviour, causes := range map[string][]string{
		"dies before load once": {event.CauseUnknown},
		"dies in a round once":  {event.CauseOutOfMemory},
		// in case the kernel kills a process at the same time
		"dies with a lease once": {event.CauseUnknown, event.CauseHostOutOfMemory},
		"falls silent once":      {event.CauseStalled},
	} {
		t.Run(behaviour, func(t *testing.T) {
			t.Parallel()
			st := newSwarmTest(t, 3, "node_1="+behaviour+";*=normal")
			st.spec.Plan.Slots = 1 // a lease that is not returned would block the others
			if behaviour == "falls silent once" {
				st.spec.StallTimeout = time.Second
			}
			result, err := st.run(t, t.Context())
			if err != nil {
				t.Fatal(err)
			}
			wantState(t, result.Nodes[0], event.StateDone, 0)
			wantState(t, result.Nodes[1], event.StateDone, 1)
			wantState(t, result.Nodes[2], event.StateDone, 0)
			exits, restarts := st.of("node_1", event.TypeExit), st.of("node_1", event.TypeRestart)
			if len(exits) != 2 || !slices.Contains(causes, exits[0].Cause) || exits[0].ExitCode == nil || len(restarts) != 1 || restarts[0].Message == "" {
				t.Errorf("exits %+v, restarts %+v, want cause %s", exits, restarts, causes)
			}
			if behaviour == "falls silent once" && len(exits) > 0 && !strings.Contains(exits[0].Message, "no sign of life for 1s") {
				t.Errorf("the exit says %q", exits[0].Message)
			}
		})
	}
}

func TestGivingUp(t *testing.T) {
	tests := []struct {
		behaviour, cause string
		restarts         int
	}{
		{"dies before load", event.CauseUnknown, 2},
		{"never loads", event.CauseStalled, 2},
		{"has no torch", event.CausePython, 0},
	}
	for _, tt := range tests {
		t.Run(tt.behaviour, func(t *testing.T) {
			t.Parallel()
			st := newSwarmTest(t, 3, "node_1="+tt.behaviour+";*=waits for peers")
			if tt.behaviour == "never loads" {
				st.spec.LoadTimeout = time.Second
			}
			result, err := st.run(t, t.Context())
			var lost *LostError
			if !errors.Is(err, ErrLost) || !errors.As(err, &lost) || lost.Remaining != 2 || !strings.Contains(err.Error(), "node_1: ") ||
				// besides a message, an unknown cause is not printed
				strings.Contains(err.Error(), "("+tt.cause+")") != (tt.cause != event.CauseUnknown) {
				t.Fatalf("error %v", err)
			}
			wantState(t, result.Nodes[1], event.StateGivenUp, tt.restarts)
			if result.Nodes[1].Cause != tt.cause || result.Remaining != 2 {
				t.Errorf("%+v", result)
			}
			if got := st.of("node_1", event.TypeGiveUp); len(got) != 1 || got[0].Cause != tt.cause {
				t.Errorf("giveup events %+v", got)
			}
			for _, node := range []string{"node_0", "node_2"} { // they wait for this list of members
				if got := st.of(node, event.TypeWarning); len(got) != 1 || got[0].Message != "node_0 node_2" {
					t.Errorf("%s was told %+v", node, got)
				}
			}
		})
	}
}

// Nodes are told when nodes on other hosts join and leave. This host's own nodes in that list are not new members.
func TestOthersJoin(t *testing.T) {
	st := newSwarmTest(t, 2, "waits for peers")
	var mu sync.Mutex
	var others []protocol.Member
	changed := make(chan struct{})
	st.spec.Others = func() ([]protocol.Member, <-chan struct{}) {
		mu.Lock()
		defer mu.Unlock()
		return others, changed
	}
	st.spec.Starts[1].From = 3
	loaded := 0
	st.on = func(e event.Event) {
		if e.Type != event.TypeLoaded {
			return
		}
		if loaded++; loaded == 2 {
			mu.Lock()
			others = []protocol.Member{{Node: "node_0", Absent: true}, {Node: "anna_0", From: 5}}
			close(changed)
			changed = make(chan struct{})
			mu.Unlock()
		}
	}
	if _, err := st.run(t, t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, node := range []string{"node_0", "node_1"} {
		if got := st.of(node, event.TypeWarning); len(got) != 1 || got[0].Message != "node_0 node_1 anna_0" {
			t.Errorf("%s was told %+v", node, got)
		}
	}
}

// Every node is told what the alarm decides, also one that restarts.
func TestVerdictsAreTold(t *testing.T) {
	st := newSwarmTest(t, 2, "node_0=waits for a verdict;node_1=comes back and waits for a verdict")
	var mu sync.Mutex
	var now protocol.Verdicts
	changed := make(chan struct{})
	st.spec.Verdicts = func() (protocol.Verdicts, <-chan struct{}) {
		mu.Lock()
		defer mu.Unlock()
		return now, changed
	}
	st.on = func(e event.Event) {
		if e.Type == event.TypeLoaded && e.Node == "node_1" {
			mu.Lock()
			now.Judged, now.Lowered = now.Judged+5, []int{7}
			close(changed)
			changed = make(chan struct{})
			mu.Unlock()
		}
	}
	result, err := st.run(t, t.Context())
	if err != nil {
		t.Fatal(err)
	}
	wantState(t, result.Nodes[0], event.StateDone, 0)
	wantState(t, result.Nodes[1], event.StateDone, 1)
	for _, node := range []string{"node_0", "node_1"} {
		if got := st.of(node, event.TypeWarning); len(got) != 1 || got[0].Message != "5 [7]" && got[0].Message != "10 [7]" {
			t.Errorf("%s was told %+v", node, got)
		}
	}
}

func TestMissingProgramIsNotRetried(t *testing.T) {
	st := newSwarmTest(t, 2, "normal")
	st.spec.Exe = filepath.Join(t.TempDir(), "absent")
	result, err := st.run(t, t.Context())
	if !errors.Is(err, ErrLost) || result.Remaining != 0 || result.Nodes[0].Cause != event.CauseConfig || result.Nodes[0].Restarts != 0 {
		t.Errorf("%+v, %v", result, err)
	}
}

func TestOddNodesFinish(t *testing.T) {
	st := newSwarmTest(t, 3, "node_0=prints garbage;node_1=floods its log;node_2=leaves a grandchild")
	st.spec.LogLimit = 1 << 20
	result, err := st.run(t, t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range result.Nodes {
		wantState(t, r, event.StateDone, 0)
	}
	if len(st.of("node_0", event.TypeWarning)) != 1 {
		t.Error("garbage went unnoticed")
	}
	info, err := os.Stat(filepath.Join(st.spec.Starts[1].Dir, runlog.NodeFile))
	if err != nil || info.Size() == 0 || info.Size() > st.spec.LogLimit {
		t.Errorf("log: %v, %v", info, err)
	}
}

func TestStop(t *testing.T) {
	tests := []struct {
		behaviour string
		state     event.State
		hurry     bool
	}{
		{"until stopped", event.StateStopped, false},
		{"ignores stop", event.StateFailed, false},
		{"ignores TERM", event.StateFailed, false},
		{"ignores TERM", event.StateFailed, true},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprintf("%s, hurry %t", tt.behaviour, tt.hurry), func(t *testing.T) {
			t.Parallel()
			st := newSwarmTest(t, 3, tt.behaviour)
			if tt.state == event.StateStopped {
				st.spec.Stop = supervise.Ladder{} // the full default stop
			}
			now := make(chan struct{})
			st.spec.Now = now
			if tt.hurry {
				st.spec.Stop = supervise.Ladder{Grace: time.Hour, Term: time.Hour}
			}
			cause := errors.New("interrupt")
			ctx, cancel := context.WithCancelCause(t.Context())
			loaded := 0
			st.on = func(e event.Event) {
				if e.Type == event.TypeLoaded {
					if loaded++; loaded == 3 {
						cancel(cause)
						if tt.hurry {
							close(now)
						}
					}
				}
			}
			begin := time.Now()
			result, err := st.run(t, ctx)
			if !errors.Is(err, cause) {
				t.Errorf("error %v", err)
			}
			for _, r := range result.Nodes {
				wantState(t, r, tt.state, 0)
				if r.Cause != event.CauseStopped {
					t.Errorf("%s: cause %s (%s)", r.Node, r.Cause, r.Message)
				}
			}
			if d := time.Since(begin); d > 15*time.Second {
				t.Errorf("took %s", d)
			}
		})
	}
}

func TestStopBeforeEverythingIsUp(t *testing.T) {
	st := newSwarmTest(t, 3, "node_0=never loads;*=normal")
	cause := errors.New("interrupt")
	ctx, cancel := context.WithCancelCause(t.Context())
	st.on = func(e event.Event) {
		if e.Type == event.TypeState && e.State == event.StateLoading {
			cancel(cause)
		}
	}
	result, err := st.run(t, ctx)
	if !errors.Is(err, cause) || len(st.of("", event.TypeSpawn)) != 1 {
		t.Errorf("error %v, spawned %+v", err, st.of("", event.TypeSpawn))
	}
	wantState(t, result.Nodes[1], event.StateStopped, 0)
	wantState(t, result.Nodes[2], event.StateStopped, 0)
	for _, node := range []string{"node_1", "node_2"} {
		if states := st.of(node, event.TypeState); len(states) != 2 || states[1].State != event.StateStopped {
			t.Errorf("%s is queued for ever: %+v", node, states)
		}
	}
}

func TestStopWhileWaitingToRestart(t *testing.T) {
	st := newSwarmTest(t, 1, "dies before load")
	st.spec.Restarts = supervise.Policy{MaxRestarts: 2, First: time.Hour, Cap: time.Hour}
	cause := errors.New("interrupt")
	ctx, cancel := context.WithCancelCause(t.Context())
	st.on = func(e event.Event) {
		if e.Type == event.TypeRestart {
			cancel(cause)
		}
	}
	result, err := st.run(t, ctx)
	if !errors.Is(err, cause) {
		t.Errorf("error %v", err)
	}
	wantState(t, result.Nodes[0], event.StateStopped, 0)
}

func TestBadSpecs(t *testing.T) {
	good := fakeSpec(t.TempDir(), 2, "*=normal")
	twice := good
	twice.Starts = []protocol.Start{good.Starts[0], good.Starts[0]}
	homeless := good
	homeless.Starts = []protocol.Start{{Node: "node_0"}}
	for name, spec := range map[string]Spec{"nothing": {}, "no nodes": {Exe: "/bin/true"}, "one name twice": twice, "no folder": homeless} {
		if _, err := Run(t.Context(), spec, func(event.Event) {}, slog.New(slog.DiscardHandler)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// launchUntilKilled is the launcher that TestKilledLauncherStrandsNothing kills.
func launchUntilKilled(dir string) {
	spec := fakeSpec(dir, 3, os.Getenv(playNode))
	spec.StallTimeout, spec.Plan.Slots = launcherStall, len(spec.Starts)
	Run(context.Background(), spec, func(e event.Event) {
		if e.Type == event.TypeLoaded || e.Type == event.TypeExit {
			fmt.Println(e.Type, e.Node, e.Message)
		}
	}, slog.New(slog.DiscardHandler))
	os.Exit(1)
}

// otherLauncher starts a launcher in a separate process and waits until its three nodes have loaded. said is its
// further output.
func otherLauncher(t *testing.T, dir, behaviour string) (launcher *exec.Cmd, id string, said *bufio.Scanner) {
	t.Helper()
	id = fmt.Sprintf("%s-%d", t.Name(), os.Getpid())
	launcher = exec.Command(os.Args[0])
	launcher.Env = append(os.Environ(), playLauncher+"="+dir, playNode+"=*="+behaviour, marker+"="+id)
	stdout, err := launcher.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := launcher.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		launcher.Process.Kill()
		launcher.Wait()
		eventually(t, "its nodes are gone", func() bool { return len(strays(t, id)) == 0 })
	})
	said = bufio.NewScanner(stdout)
	for range 3 {
		if !said.Scan() || !strings.HasPrefix(said.Text(), string(event.TypeLoaded)) {
			t.Fatalf("the launcher ended, or said %q", said.Text())
		}
	}
	return launcher, id, said
}

func TestKilledLauncherStrandsNothing(t *testing.T) {
	launcher, id, _ := otherLauncher(t, t.TempDir(), "until stopped")
	if n := len(strays(t, id)); n != 4 {
		t.Errorf("%d processes run, want the launcher and 3 nodes", n)
	}
	if err := launcher.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	launcher.Wait()
	eventually(t, "its nodes are gone", func() bool { return len(strays(t, id)) == 0 })
}

// Its nodes' engines are suspended, so they notice nothing of the nodes and the launcher.
func TestKilledLaunchersEnginesAreSwept(t *testing.T) {
	dir := t.TempDir()
	launcher, id, _ := otherLauncher(t, dir, "has a stopped engine")
	if n := len(strays(t, id)); n != 7 {
		t.Errorf("%d processes run, want the launcher, 3 nodes and 3 engines", n)
	}
	if err := launcher.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	launcher.Wait()
	eventually(t, "its nodes are gone", func() bool { return len(strays(t, id)) <= 3 })
	if n := len(strays(t, id)); n != 3 {
		t.Errorf("%d processes are left, want 3 engines", n)
	}
	st := &swarmTest{spec: fakeSpec(dir, 3, "*=normal")} // in the folders of the killed launcher
	if _, err := st.run(t, t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the engines are gone", func() bool { return len(strays(t, id)) == 0 })
}

// A launcher that was suspended for a while must not treat its nodes as silent.
func TestStoppedLauncherFindsItsNodesWell(t *testing.T) {
	launcher, id, said := otherLauncher(t, t.TempDir(), "holds a lease and beats")
	nodes := strays(t, id)
	if err := launcher.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	time.Sleep(2 * launcherStall) // the test is about elapsed time
	if err := launcher.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	news := make(chan string)
	go func() {
		defer close(news)
		for said.Scan() {
			news <- said.Text()
		}
	}()
	select {
	case text := <-news:
		t.Errorf("the launcher says %q", text)
	case <-time.After(launcherStall):
	}
	if now := strays(t, id); !slices.Equal(now, nodes) {
		t.Errorf("%v run, and before %v", now, nodes)
	}
	launcher.Process.Kill()
	for range news { // to its end
	}
}

// Other hosts' reports about this host's nodes count only for Absent and Ahead. Given-up nodes stay out, and a
// node's From is that of its assignment.
func TestMembersTakeOverWhoIsAbsent(t *testing.T) {
	own := func(name string, from int) *node {
		return &node{start: protocol.Start{Node: name, From: from}}
	}
	s := &swarm{nodes: []*node{own("w_0", 3), own("w_1", 3), own("w_2", 7)}, givenUp: map[string]bool{}}
	members, changed := s.members()
	require.False(t, changed)
	require.Equal(t, []protocol.Member{{Node: "w_0", From: 3}, {Node: "w_1", From: 3}, {Node: "w_2", From: 7}}, members)

	s.givenUp["w_1"] = true
	s.others = []protocol.Member{
		{Node: "node_0"}, {Node: "w_0", From: 99, Absent: true, Trust: protocol.TrustKey}, {Node: "w_1", Absent: true}, {Node: "w_2", From: 7},
		{Node: "old", Absent: true, Trust: protocol.TrustKey},
	}
	want := []protocol.Member{
		{Node: "w_0", From: 3, Absent: true}, {Node: "w_2", From: 7}, {Node: "node_0"}, {Node: "old", Absent: true, Trust: protocol.TrustKey},
	}
	members, changed = s.members()
	require.True(t, changed)
	require.Equal(t, want, members)

	s.others = []protocol.Member{{Node: "w_0"}}
	members, _ = s.members()
	require.Equal(t, []protocol.Member{{Node: "w_0", From: 3}, {Node: "w_2", From: 7}}, members, "it is there again")

	s.others = []protocol.Member{}
	_, changed = s.members()
	require.True(t, changed, "nobody else is another swarm than the one before")
}
