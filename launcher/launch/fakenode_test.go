package launch

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sapo-swarm/swarm/internal/hermetic"
	"github.com/sapo-swarm/swarm/launcher/runlog"
	"github.com/sapo-swarm/swarm/launcher/supervise"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/node/protocol"
)

// The test binary acts as a node or a launcher if these are set.
const (
	playNode     = "LAUNCHER_TEST_NODE"     // node_0=normal;node_1=...
	playLauncher = "LAUNCHER_TEST_LAUNCHER" // folder of the run
	marker       = "LAUNCHER_TEST_ID"       // the same in all processes of one test
	fakeRounds   = 3

	launcherStall = 3 * time.Second // Spec.StallTimeout of playLauncher
)

func TestMain(m *testing.M) {
	if os.Getenv(playNode) != "" && os.Getenv(playLauncher) == "" {
		serveFakeNode()
	}
	if dir := os.Getenv(playLauncher); dir != "" {
		launchUntilKilled(dir)
	}
	os.Exit(hermetic.Main(m))
}

// fakeNode speaks a node's side of the protocol.
type fakeNode struct {
	out      *event.Writer
	start    protocol.Start
	grants   chan int64
	peers    chan []string
	budgets  chan int64
	verdicts chan protocol.Verdicts
	stop     chan struct{}
	lastID   int64
	behaving string
	attempt  int // 0 in a node's first process, 1 in its second; set only for behaviors that depend on it
}

func serveFakeNode() {
	n := &fakeNode{
		out: event.NewWriter(os.Stdout), grants: make(chan int64, 1), peers: make(chan []string, 16), budgets: make(chan int64, 16),
		verdicts: make(chan protocol.Verdicts, 64),
		stop:     make(chan struct{}),
	}
	in := event.NewReader(os.Stdin, event.MaxLine)
	var first protocol.Command
	if err := in.Read(&first); err != nil || first.Type != protocol.CommandStart {
		fmt.Fprintln(os.Stderr, "no start command:", err)
		os.Exit(2)
	}
	n.start = *first.Start
	for entry := range strings.SplitSeq(os.Getenv(playNode), ";") {
		if name, behaviour, _ := strings.Cut(entry, "="); name == n.start.Node || name == "*" && n.behaving == "" {
			n.behaving = behaviour
		}
	}
	if n.behaving == "ignores TERM" {
		signal.Ignore(syscall.SIGTERM)
	}
	go n.listen(in)
	os.Exit(n.live())
}

func (n *fakeNode) listen(in *event.Reader) {
	for {
		var cmd protocol.Command
		err := in.Read(&cmd)
		switch {
		case errors.Is(err, io.EOF):
			os.Exit(1)
		case err != nil:
			fmt.Fprintln(os.Stderr, err)
		case cmd.Type == protocol.CommandGrant:
			n.grants <- cmd.Lease.ID
		case cmd.Type == protocol.CommandMembers:
			n.peers <- namesOf(cmd.Members)
		case cmd.Type == protocol.CommandVerdict:
			n.verdicts <- *cmd.Verdicts
		case cmd.Type == protocol.CommandBudget:
			n.budgets <- cmd.BudgetBytes
		case cmd.Type == protocol.CommandStop:
			close(n.stop)
		}
	}
}

func (n *fakeNode) send(e event.Event) {
	if err := n.out.Write(e); err != nil {
		os.Exit(1)
	}
}

func (n *fakeNode) state(s event.State) { n.send(event.Event{Type: event.TypeState, State: s}) }

// firstLife returns true once per node folder.
func (n *fakeNode) firstLife() bool {
	f, err := os.OpenFile(filepath.Join(n.start.Dir, "lived"), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err == nil {
		f.Close()
	}
	return err == nil
}

// countAttempt returns 0 in a node's first process, 1 in its second.
func (n *fakeNode) countAttempt() int {
	for i := 0; ; i++ {
		f, err := os.OpenFile(filepath.Join(n.start.Dir, fmt.Sprintf("life_%d", i)), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if err == nil {
			f.Close()
			return i
		}
	}
}

// runOut does what a node does after the last step of its ladder.
func (n *fakeNode) runOut(cause string) int {
	n.send(event.Event{Type: event.TypeMemoryStep, MemoryStep: &event.MemoryStep{
		Round: 4, Phase: "update", Cause: cause, Action: event.ActionRestartEngine, MicroBatch: 1, RequestedBytes: 2e9, UsedBytes: 3e9, CapBytes: 4e9,
	}})
	n.send(event.Event{Type: event.TypeFailure, Cause: event.CauseOutOfMemory, Message: "out of memory at micro-batch 1"})
	return 3
}

func (n *fakeNode) live() int {
	// Count before any report, because a node may be killed for its report.
	if strings.Contains(n.behaving, " attempts") || strings.HasPrefix(n.behaving, "is crowded out ") || n.behaving == "fails in two ways" {
		n.attempt = n.countAttempt()
	}
	n.state(event.StateLoading)
	switch n.behaving {
	case "dies before load":
		fmt.Fprintln(os.Stderr, "RuntimeError: unlucky")
		return 1
	case "dies before load once":
		if n.firstLife() {
			return 1
		}
	case "has no torch":
		n.send(event.Event{Type: event.TypeFailure, Cause: event.CausePython, Message: "no torch"})
		return 1
	case "never loads":
		select {}
	case "loads under a lease":
		n.lease()
		n.release()
	}
	n.replay()
	n.send(event.Event{Type: event.TypeLoaded, Loaded: &event.Loaded{Model: "nano", Device: n.start.Device, EnginePID: n.engine()}})
	if code, done := n.liveInMemory(); done {
		return code
	}
	if code, done := n.liveHard(); done {
		return code
	}
	switch n.behaving {
	case "falls silent once":
		if n.firstLife() {
			select {}
		}
	case "ignores stop", "ignores TERM":
		select {}
	case "comes back and waits for peers":
		if n.firstLife() {
			return 1
		}
		fallthrough
	case "waits for peers":
		peers := <-n.peers
		n.send(event.Event{Type: event.TypeWarning, Message: strings.Join(peers, " ")})
	case "comes back and waits for a verdict":
		if n.firstLife() {
			return 1
		}
		fallthrough
	case "waits for a verdict":
		known := *n.start.Verdicts
		for known.Judged < 5 {
			known = <-n.verdicts
		}
		n.send(event.Event{Type: event.TypeWarning, Message: fmt.Sprint(known.Judged, known.Lowered)})
	case "until stopped":
		<-n.stop
		n.state(event.StateStopped)
		return 0
	case "prints garbage":
		fmt.Println("Some weights were newly initialized")
	case "floods its log":
		line := strings.Repeat("x", 1000) + "\n"
		for range 3000 {
			io.WriteString(os.Stderr, line)
		}
	case "leaves a grandchild":
		if err := exec.Command("/bin/sleep", "1000").Start(); err != nil {
			return 1
		}
	case "computes for long":
		n.lease()
		time.Sleep(4 * time.Second)
		n.release()
	case "dies with a lease once":
		n.lease()
		if n.firstLife() {
			syscall.Kill(os.Getpid(), syscall.SIGKILL)
		}
		n.release()
	}
	for round := range fakeRounds {
		n.lease()
		n.send(event.Event{Type: event.TypeRound, Round: &event.Round{Round: round, Reward: 0.5}})
		if n.behaving == "dies in a round once" && round == 1 && n.firstLife() {
			fmt.Fprintln(os.Stderr, "torch.cuda.OutOfMemoryError: CUDA out of memory.")
			return 1
		}
		n.release()
		select {
		case <-n.stop:
			n.state(event.StateStopped)
			return 0
		default:
		}
	}
	n.state(event.StateDone)
	return 0
}

// liveInMemory has the behaviors about memory and the GPU. done means that the process has ended.
func (n *fakeNode) liveInMemory() (code int, done bool) {
	var attempts, cycles int
	switch {
	case n.start.Device == deviceCPU:
	case n.behaving == "runs out of memory":
		return n.runOut(event.MemoryOwnCap), true
	case scan(n.behaving, "is crowded out %d times", &attempts):
		if n.attempt < attempts {
			return n.runOut(event.MemoryNeighbour), true
		}
	case n.behaving == "is killed by the kernel":
		n.send(event.Event{Type: event.TypeFailure, Cause: event.CauseHostOutOfMemory, Message: "the kernel killed the engine"})
		return 3, true
	case n.behaving == "waits for a budget":
		n.send(event.Event{Type: event.TypeWarning, Message: fmt.Sprint(<-n.budgets)})
	case scan(n.behaving, "hangs in %d attempts", &attempts):
		if n.attempt < attempts {
			select {}
		}
	case n.behaving == "dies in its engine once":
		if n.firstLife() {
			fmt.Fprintln(os.Stderr, "RuntimeError: CUDA error: unspecified launch failure")
			return 1, true
		}
	case n.behaving == "holds a lease and beats":
		n.lease()
		for {
			select {
			case <-n.stop:
				return 0, true
			case <-time.After(5 * time.Millisecond):
				n.send(event.Event{Type: event.TypeMemory, Memory: &event.Memory{RSSBytes: 1}})
			}
		}
	case scan(n.behaving, "computes %d times", &cycles):
		begin := time.Now()
		for range cycles {
			n.lease()
			n.release()
		}
		n.send(event.Event{Type: event.TypeWarning, Message: "computed", Seconds: time.Since(begin).Seconds()})
		n.state(event.StateDone)
		return 0, true
	case n.behaving == "says what it sees":
		n.send(event.Event{Type: event.TypeWarning, Message: os.Getenv("FAKE_CLIENT") + " " + os.Getenv("CUDA_VISIBLE_DEVICES")})
	}
	return 0, false
}

// replay does what a resumed node does before it is loaded.
func (n *fakeNode) replay() {
	var steps int
	switch {
	case n.behaving == "replays until node_1 has begun":
		n.send(event.Event{Type: event.TypeState, State: event.StateReplaying})
		for {
			if _, err := os.Stat(filepath.Join(filepath.Dir(n.start.Dir), "node_1", runlog.NodeFile)); err == nil {
				return
			}
			time.Sleep(time.Millisecond)
		}
	case scan(n.behaving, "replays %d rounds of 100 ms", &steps):
		for round := range steps {
			n.send(event.Event{Type: event.TypeState, State: event.StateReplaying, RoundIndex: round})
			time.Sleep(100 * time.Millisecond)
		}
	}
}

// engine starts a substitute for a node's engine: a suspended process in a group of its own.
func (n *fakeNode) engine() int {
	if n.behaving != "has a stopped engine" && (n.behaving != "is killed with a stopped engine once" || !n.firstLife()) {
		return 0
	}
	cmd := exec.Command("/bin/sleep", "1000")
	// In a session of its own: when a suspended group loses its parent in the same session, the kernel sends it
	// SIGHUP and SIGCONT.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return 0
	}
	syscall.Kill(cmd.Process.Pid, syscall.SIGSTOP)
	return cmd.Process.Pid
}

// liveHard has the behaviors of nodes with repeated failures. done means that the process has ended.
func (n *fakeNode) liveHard() (code int, done bool) {
	var attempts int
	tell := func(round int, replayed bool) {
		n.send(event.Event{Type: event.TypeRound, Replayed: replayed, Round: &event.Round{Round: round, Reward: 0.5}})
	}
	switch {
	case n.behaving == "has a stopped engine":
		select {}
	case n.behaving == "is stopped":
		syscall.Kill(os.Getpid(), syscall.SIGSTOP)
	case scan(n.behaving, "gets a round done in each of %d attempts", &attempts):
		if attempt := n.attempt; attempt < attempts {
			tell(attempt, false)
			return 1, true
		}
	case n.behaving == "only tells again":
		tell(0, true)
		tell(1, true)
		return 1, true
	case scan(n.behaving, "does not reach the exchange in %d attempts", &attempts):
		if n.attempt < attempts {
			n.send(event.Event{Type: event.TypeFailure, Cause: event.CauseExchange, Message: "no answer within 1m0s"})
			return 1, true
		}
	case n.behaving == "fails in two ways":
		if attempt := n.attempt; attempt == 0 || attempt == 2 {
			n.send(event.Event{Type: event.TypeFailure, Cause: event.CauseEngine, Message: "the engine is gone"})
		}
		return 1, true
	case n.behaving == "says its place":
		n.send(event.Event{Type: event.TypeWarning, Message: fmt.Sprintf("%d %s %d %d", n.start.Index, strings.Join(namesOf(n.start.Members), ","), n.start.Recorded, n.start.Evaluated)})
		if n.firstLife() {
			n.send(event.Event{Type: event.TypeEval, Eval: &event.Eval{Round: 0}})
			n.send(event.Event{Type: event.TypeEval}) // without content: causes a warning
			tell(0, false)
			tell(1, false)
			tell(1, true)
			return 1, true
		}
	}
	return 0, false
}

func scan(text, format string, n *int) bool {
	_, err := fmt.Sscanf(text, format, n)
	return err == nil
}

func (n *fakeNode) lease() {
	n.lastID++
	request := event.Lease{ID: n.lastID, Phase: "generate"}
	var gigabytes int
	if scan(n.behaving, "asks for %d GB", &gigabytes) {
		request.Bytes = int64(gigabytes) * 1e9
	}
	n.send(event.Event{Type: event.TypeLease, Lease: &request})
	if id := <-n.grants; id != n.lastID {
		fmt.Fprintf(os.Stderr, "granted %d instead of %d\n", id, n.lastID)
		os.Exit(2)
	}
}

func (n *fakeNode) release() {
	n.send(event.Event{Type: event.TypeRelease, Lease: &event.Lease{ID: n.lastID}})
}

// strays returns the processes with a test's marker, without zombies and the test itself.
func strays(t *testing.T, id string) []string {
	t.Helper()
	entries, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, path := range entries {
		env, err := os.ReadFile(path) // empty for a zombie
		if err == nil && strings.Contains(string(env), marker+"="+id+"\x00") {
			name, _ := os.ReadFile(filepath.Join(filepath.Dir(path), "cmdline"))
			found = append(found, fmt.Sprintf("%s %q", filepath.Base(filepath.Dir(path)), name))
		}
	}
	return found
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for limit := time.Now().Add(20 * time.Second); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("not within 20 s: %s", what)
		}
	}
}

var quickLadder = supervise.Ladder{Grace: 300 * time.Millisecond, Term: 300 * time.Millisecond}

// namesOf returns the members' nodes in order.
func namesOf(members []protocol.Member) []string {
	names := make([]string, len(members))
	for i, m := range members {
		names[i] = m.Node
	}
	return names
}
