package launch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sapo-swarm/swarm/launcher/fit"
	"github.com/sapo-swarm/swarm/launcher/runlog"
	"github.com/sapo-swarm/swarm/launcher/supervise"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/node/protocol"
)

func TestStoppedNodeGoesOn(t *testing.T) {
	st := newSwarmTest(t, 2, "node_1=is stopped;*=normal")
	st.spec.StopLimit = 200 * time.Millisecond
	result, err := st.run(t, t.Context())
	if err != nil {
		t.Fatal(err)
	}
	wantState(t, result.Nodes[1], event.StateDone, 0)
	if got := st.messages("node_1"); len(got) != 1 || !strings.Contains(got[0], "was suspended for 200ms; resumed it") {
		t.Errorf("warnings %q", got)
	}
}

// The memory of a killed node's engine must be free when the node restarts.
func TestKilledNodesEngineIsGoneWhenItComesBack(t *testing.T) {
	st := newSwarmTest(t, 1, "is killed with a stopped engine once")
	sharer := &fakeSharer{}
	st.spec.Sharer = sharer
	st.onGPUs(fit.Room{})
	node, engine, attempts := 0, 0, 0
	st.on = func(e event.Event) {
		switch e.Type {
		case event.TypeSpawn:
			node = e.PID
			if attempts++; attempts == 2 && runs(engine) {
				t.Error("the engine still runs when its node comes back")
			}
		case event.TypeLoaded:
			if attempts == 1 {
				engine = e.Loaded.EnginePID
			}
		case event.TypeLease:
			if attempts == 1 {
				syscall.Kill(node, syscall.SIGKILL)
			}
		}
	}
	result, err := st.run(t, t.Context())
	if err != nil {
		t.Fatal(err)
	}
	wantState(t, result.Nodes[0], event.StateDone, 1)
	if engine == 0 || len(sharer.killed) != 1 || !slices.Contains(sharer.killed[0], engine) {
		t.Errorf("BeforeKill was called with %v, not with engine %d", sharer.killed, engine)
	}
}

// runs reports whether a process exists and is not a zombie.
func runs(pid int) bool {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err == nil && !strings.Contains(string(data), ") Z ")
}

// If a node dies before its model is loaded, nodes behind it load at once. It then gets another turn.
func TestDeathBeforeLoadHoldsUpNobody(t *testing.T) {
	st := newSwarmTest(t, 3, "node_0=dies before load once;*=normal")
	st.spec.LoadTimeout = time.Hour
	st.spec.Restarts.First, st.spec.Restarts.Cap = 2*time.Second, 2*time.Second
	var order []string
	st.on = func(e event.Event) {
		if e.Type == event.TypeLoaded || e.Type == event.TypeExit && e.Node == "node_0" {
			order = append(order, string(e.Type)+" "+e.Node)
		}
	}
	result, err := st.run(t, t.Context())
	if err != nil {
		t.Fatal(err)
	}
	wantState(t, result.Nodes[0], event.StateDone, 1)
	if want := []string{"exit node_0", "loaded node_1", "loaded node_2", "loaded node_0", "exit node_0"}; !slices.Equal(order, want) {
		t.Errorf("%q, want %q", order, want)
	}
}

func TestReturnedNodeKeepsItsPlace(t *testing.T) {
	st := newSwarmTest(t, 2, "node_1=says its place;*=normal")
	for i := range st.spec.Starts {
		st.spec.Starts[i].Members = protocol.Members("node_0", "node_1")
	}
	result, err := st.run(t, t.Context())
	if err != nil {
		t.Fatal(err)
	}
	wantState(t, result.Nodes[1], event.StateDone, 1)
	// It has reported two rounds and an evaluation, and need not report them again.
	without := "ignored an event of type eval without its content"
	if got, want := st.messages("node_1"), []string{"1 node_0,node_1 0 []", without, "1 node_0,node_1 2 [0]"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// A node that restarts after others were given up gets the list of the remaining members.
func TestReturnedNodeHearsOfItsPeers(t *testing.T) {
	st := newSwarmTest(t, 3, "node_0=has no torch;node_1=comes back and waits for peers;node_2=waits for peers")
	result, err := st.run(t, t.Context())
	if !errors.Is(err, ErrLost) {
		t.Fatal(err)
	}
	wantState(t, result.Nodes[1], event.StateDone, 1)
	for _, node := range []string{"node_1", "node_2"} {
		if got := st.messages(node); len(got) == 0 || got[len(got)-1] != "node_1 node_2" {
			t.Errorf("%s was told %q", node, got)
		}
	}
}

// Replaying may take longer than loading. Every replayed round counts as progress, and the model is in memory by
// then.
func TestReplayIsNoStallAndHoldsUpNobody(t *testing.T) {
	st := newSwarmTest(t, 3, "node_0=replays until node_1 has begun;node_1=replays 20 rounds of 100 ms;*=normal")
	st.spec.LoadTimeout = time.Second
	result, err := st.run(t, t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range result.Nodes {
		wantState(t, r, event.StateDone, 0)
	}
}

// A node that makes progress is always restarted.
func TestNodeThatGetsOnIsNotGivenUp(t *testing.T) {
	st := newSwarmTest(t, 1, "gets a round done in each of 40 attempts")
	st.spec.Restarts.MaxRestarts = 1
	result, err := st.run(t, t.Context())
	if err != nil {
		t.Fatal(err)
	}
	wantState(t, result.Nodes[0], event.StateDone, 40)
}

func TestNodeThatOnlyTellsAgainIsGivenUp(t *testing.T) {
	st := newSwarmTest(t, 1, "only tells again")
	result, err := st.run(t, t.Context())
	if !errors.Is(err, ErrLost) {
		t.Fatalf("error %v", err)
	}
	wantState(t, result.Nodes[0], event.StateGivenUp, 2)
}

// A node that made progress is restarted at once, every time. A node that never ran well waits.
func TestFirstFailureAfterProgressIsNotWaitedFor(t *testing.T) {
	st := newSwarmTest(t, 1, "gets a round done in each of 5 attempts")
	st.spec.Restarts = supervise.Policy{MaxRestarts: 2, First: time.Hour, Cap: time.Hour}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	result, err := st.run(t, ctx)
	if err != nil {
		t.Fatal(err)
	}
	wantState(t, result.Nodes[0], event.StateDone, 5)

	// the second for lack of memory
	for _, behaviour := range []string{"dies before load once", "dies in a round once"} {
		st = newSwarmTest(t, 1, behaviour)
		st.spec.Restarts = supervise.Policy{MaxRestarts: 2, First: 10 * time.Millisecond}
		if _, err := st.run(t, ctx); err != nil {
			t.Fatal(err)
		}
		if got := st.of("node_0", event.TypeRestart); len(got) != 1 || got[0].Seconds < 0.008 {
			t.Errorf("%s: restarts %+v", behaviour, got)
		}
	}
}

// The exchange may be unreachable for longer than a node may fail.
func TestExchangeIsWaitedFor(t *testing.T) {
	st := newSwarmTest(t, 1, "does not reach the exchange in 6 attempts")
	st.spec.Restarts.MaxRestarts = 1
	st.spec.CutOff = supervise.Policy{MaxRestarts: 6, First: time.Millisecond, Cap: 5 * time.Millisecond}
	result, err := st.run(t, t.Context())
	if err != nil {
		t.Fatal(err)
	}
	wantState(t, result.Nodes[0], event.StateDone, 6)

	st = newSwarmTest(t, 1, "does not reach the exchange in 99 attempts")
	st.spec.CutOff = supervise.Policy{MaxRestarts: 3, First: time.Millisecond, Cap: 5 * time.Millisecond}
	result, err = st.run(t, t.Context())
	if !errors.Is(err, ErrLost) || result.Nodes[0].Cause != event.CauseExchange {
		t.Fatalf("%+v, error %v", result, err)
	}
	wantState(t, result.Nodes[0], event.StateGivenUp, 3)
}

// A give-up names the most frequent cause, the number of failures and the time span.
func TestGiveUpIsExplained(t *testing.T) {
	st := newSwarmTest(t, 1, "fails in two ways")
	result, err := st.run(t, t.Context())
	if !errors.Is(err, ErrLost) || !strings.Contains(err.Error(), "the engine is gone (engine)") {
		t.Errorf("error %v", err)
	}
	wantState(t, result.Nodes[0], event.StateGivenUp, 2)
	got := st.of("node_0", event.TypeGiveUp)
	if len(got) != 1 || got[0].Cause != event.CauseEngine {
		t.Fatalf("%+v", got)
	}
	begins, ends := "the engine is gone; given up after 3 failures in ", " without a round: engine 2, unknown 1"
	if text := got[0].Message; !strings.HasPrefix(text, begins) || !strings.HasSuffix(text, ends) {
		t.Errorf("message %q", text)
	}
}

func TestFailureLog(t *testing.T) {
	begin := time.Now()
	log := failureLog{most: 3}
	for i, f := range []struct {
		cause  string
		rounds int
	}{{"a", 0}, {"a", 0}, {"b", 4}, {"c", 0}, {"c", 0}, {"b", 0}} {
		log.add(begin.Add(time.Duration(i)*time.Minute), f.cause, fmt.Sprint(f.cause, i), f.rounds)
	}
	if cause, message := log.main(); cause != "c" || message != "c4" {
		t.Errorf("main %s: %s", cause, message)
	}
	if want := "given up after 3 failures in 2m0s without a round: c 2, b 1"; log.String() != want {
		t.Errorf("%q, want %q", log.String(), want)
	}
	log.add(begin, "d", "alone", 1)
	if cause, message := log.main(); cause != "d" || message != "alone" || log.String() != "given up after 1 failure" {
		t.Errorf("%s: %s, %s", cause, message, log.String())
	}
}

// For any failures, the main cause is one of the most frequent causes, and its message belongs to it.
func TestMainCauseIsTheMostFrequent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		log := failureLog{most: rapid.IntRange(1, 9).Draw(t, "most")}
		for i, cause := range rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c"}), 1, 20).Draw(t, "causes") {
			log.add(time.Time{}, cause, cause+strconv.Itoa(i), 0)
		}
		cause, message := log.main()
		_, times := log.counts()
		for other, n := range times {
			if n > times[cause] {
				t.Fatalf("%s %d times, and %s %d", cause, times[cause], other, n)
			}
		}
		if !strings.HasPrefix(message, cause) || len(log.all) > log.most {
			t.Fatalf("%s: %s of %d", cause, message, len(log.all))
		}
	})
}

// The stop of a run leaves time before a spot VM ends, with and without a Sharer.
func TestStopFitsASpotNotice(t *testing.T) {
	for name, sharer := range map[string]Sharer{"alone": nil, "with a sharer": &fakeSharer{}} {
		spec := fakeSpec(t.TempDir(), 1, "*=normal")
		spec.Stop, spec.Sharer = supervise.Ladder{}, sharer
		spec, err := spec.withDefaults()
		if err != nil {
			t.Fatal(err)
		}
		if limit := spec.Stop.Limit(sharer != nil); limit > 22*time.Second || limit < 20*time.Second {
			t.Errorf("%s: a stop may take %s", name, limit)
		}
	}
}

// slowSharer uses the maximum time.
type slowSharer struct{ fakeSharer }

func (s *slowSharer) BeforeKill(pids []int) {
	s.fakeSharer.BeforeKill(pids)
	time.Sleep(supervise.AnnounceLimit)
}

// The worst case combines nodes that ignore everything, suspended engines and a slow sharer.
func TestWorstStopOfARun(t *testing.T) {
	st := newSwarmTest(t, 3, "node_0=ignores TERM;node_1=has a stopped engine;node_2=ignores stop")
	st.spec.Sharer = &slowSharer{}
	st.onGPUs(fit.Room{})
	cause := errors.New("interrupt")
	ctx, cancel := context.WithCancelCause(t.Context())
	var begin time.Time
	st.once(3, event.TypeLoaded, []string{"node_0", "node_1", "node_2"}, func() {
		begin = time.Now()
		cancel(cause)
	})
	if _, err := st.run(t, ctx); !errors.Is(err, cause) {
		t.Errorf("error %v", err)
	}
	if d, limit := time.Since(begin), st.spec.Stop.Limit(true); d > limit {
		t.Errorf("took %s, the limit is %s", d, limit)
	}
}

// In a node's folder the launcher itself leaves only the log.
func TestOrderlyRunLeavesALogAlone(t *testing.T) {
	st := newSwarmTest(t, 2, "normal")
	if _, err := st.run(t, t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, start := range st.spec.Starts {
		entries, err := os.ReadDir(start.Dir)
		if err != nil || len(entries) != 1 || entries[0].Name() != runlog.NodeFile {
			t.Errorf("%s holds %v, %v", start.Dir, entries, err)
		}
	}
}
