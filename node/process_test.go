package node

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/internal/hermetic"
	"github.com/sapo-swarm/swarm/internal/hostmem"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/node/exchange"
	"github.com/sapo-swarm/swarm/node/exchange/natsbus"
	"github.com/sapo-swarm/swarm/node/policy"
	"github.com/sapo-swarm/swarm/node/policy/policytest"
	"github.com/sapo-swarm/swarm/node/protocol"
	"github.com/sapo-swarm/swarm/node/tokenizer"
)

// nodeProcess runs one Process over pipes, with a launcher that grants every lease and keeps every event.
type nodeProcess struct {
	t    *testing.T
	in   *io.PipeWriter
	send *event.Writer
	exit chan int
	wait time.Duration // timeout of its waits
	read chan struct{} // closed when every event has been read; events needs no lock from then on

	mu     sync.Mutex
	events []event.Event
	more   chan struct{} // closed and replaced at each event
}

// assignment returns the assignment of a single node.
func assignment(t *testing.T, server *natsbus.Server, run, dir string, change func(*configs.Config)) protocol.Start {
	t.Helper()
	c := testConfig(t)
	c.NumTransplantTrees = 0
	if change != nil {
		change(&c)
	}
	config, err := json.Marshal(c)
	require.NoError(t, err)
	options := lab.Options(t)
	return protocol.Start{
		Protocol: protocol.Version, Run: run, Node: "node_0", Members: protocol.Members("node_0"), Dir: dir, Config: config,
		Python: options.Python, EngineDir: options.Dir, Tokenizer: tokenizer.NameBytes, ModelDir: trainedModel(t), Device: "cpu", Threads: 1,
		Exchange: protocol.Exchange{Kind: "nats", URL: server.URL(), Token: server.Token()}, Leased: true,
	}
}

func begin(t *testing.T, start protocol.Start) *nodeProcess {
	t.Helper()
	stdin, in := io.Pipe()
	out, stdout := io.Pipe()
	l := &nodeProcess{t: t, in: in, send: event.NewWriter(in), exit: make(chan int, 1), wait: soon, read: make(chan struct{}), more: make(chan struct{})}
	go func() {
		code := Process(t.Context(), stdin, stdout, os.Stderr, os.Environ(), slog.New(slog.DiscardHandler))
		stdout.Close()
		stdin.Close()
		l.exit <- code
	}()
	go l.listen(event.NewReader(out, event.MaxLine))
	require.NoError(t, l.send.Write(protocol.Command{Type: protocol.CommandStart, Start: &start}))
	return l
}

func (l *nodeProcess) listen(events *event.Reader) {
	defer close(l.read)
	for {
		var e event.Event
		if events.Read(&e) != nil {
			return
		}
		l.mu.Lock()
		l.events = append(l.events, e)
		close(l.more)
		l.more = make(chan struct{})
		l.mu.Unlock()
		if e.Type == event.TypeLease {
			go l.command(protocol.Command{Type: protocol.CommandGrant, Lease: e.Lease})
		}
	}
}

// command sends a command. It ignores errors, because the process may have ended.
func (l *nodeProcess) command(c protocol.Command) { _ = l.send.Write(c) }

// await returns the first event for which wanted is true.
func (l *nodeProcess) await(what string, wanted func(event.Event) bool) event.Event {
	l.t.Helper()
	timeout := time.After(l.wait)
	for {
		l.mu.Lock()
		i, more := slices.IndexFunc(l.events, wanted), l.more
		events := l.events
		l.mu.Unlock()
		if i >= 0 {
			return events[i]
		}
		select {
		case <-more:
		case <-timeout:
			l.t.Fatalf("no %s among %+v", what, events)
		}
	}
}

func (l *nodeProcess) loaded() *event.Loaded {
	l.t.Helper()
	return l.await("loaded", func(e event.Event) bool { return e.Type == event.TypeLoaded }).Loaded
}

// ends waits for the exit code and for the engine's end.
func (l *nodeProcess) ends(code int) {
	l.t.Helper()
	select {
	case got := <-l.exit:
		<-l.read
		require.Equal(l.t, code, got, "%+v", l.failure())
	case <-time.After(l.wait):
		l.t.Fatal("the process does not end")
	}
	if i := slices.IndexFunc(l.events, func(e event.Event) bool { return e.Type == event.TypeLoaded }); i >= 0 {
		policytest.Gone(l.t, l.events[i].Loaded.EnginePID)
	}
	asked, released := map[int64]int{}, map[int64]int{}
	for _, e := range l.events {
		switch e.Type {
		case event.TypeLease:
			asked[e.Lease.ID]++
		case event.TypeRelease:
			released[e.Lease.ID]++
		}
	}
	require.Equal(l.t, asked, released, "each lease is released once")
}

func (l *nodeProcess) failure() event.Event {
	for _, e := range l.events {
		if e.Type == event.TypeFailure {
			return e
		}
	}
	return event.Event{}
}

// rounds returns the rewards that were reported, by round, and the hash of the last checkpoint.
func (l *nodeProcess) rounds() (rewards map[int]float64, hash string) {
	rewards = map[int]float64{}
	for _, e := range l.events {
		switch {
		case e.Replayed: // reported again
		case e.Type == event.TypeRound:
			rewards[e.Round.Round] = e.Round.Reward
		case e.Type == event.TypeCheckpoint:
			hash = e.Checkpoint.WeightHash
		}
	}
	return rewards, hash
}

func (l *nodeProcess) states() []event.State {
	var states []event.State
	for _, e := range l.events {
		if e.Type == event.TypeState {
			states = append(states, e.State)
		}
	}
	return states
}

// Two nodes train together.
func TestTwoNodesLive(t *testing.T) {
	server := broker(t, "two")
	swarm := func(c *configs.Config) { c.NumTransplantTrees, c.Rounds, c.SwarmSize = 2, 2, 2 }
	var processes []*nodeProcess
	for i := range 2 {
		start := assignment(t, server, "two", filepath.Join(t.TempDir(), "deep", "folder"), swarm)
		start.Node, start.Index, start.Members = fmt.Sprintf("node_%d", i), i, protocol.Members("node_0", "node_1")
		processes = append(processes, begin(t, start))
	}
	for i, l := range processes {
		l.ends(ExitDone)
		loaded := l.loaded()
		require.Zero(t, loaded.StartRound)
		require.Less(t, loaded.SelfTestMaxAbsDiff, 1e-3)
		rewards, hash := l.rounds()
		require.Len(t, rewards, 2)
		require.NotEmpty(t, hash)
		states := l.states()
		require.Equal(t, event.StateLoading, states[0])
		require.Equal(t, event.StateDone, states[len(states)-1])
		last := slices.IndexFunc(l.events, func(e event.Event) bool { return e.Type == event.TypeRound && e.Round.Round == 1 })
		require.Equal(t, fmt.Sprintf("node_%d", 1-i), l.events[last].Round.Peers[0].Node)
		require.Equal(t, 2, l.events[last].Round.Peers[0].Available)
		memory := l.await("memory", func(e event.Event) bool { return e.Type == event.TypeMemory }).Memory
		require.Greater(t, memory.RSSBytes, int64(50<<20))
		require.GreaterOrEqual(t, memory.PeakRSSBytes, memory.RSSBytes/2)
		if hostmem.Told() {
			require.Greater(t, memory.PSSBytes, int64(5<<20))
			// Half of the memory that the engine shares only with its host counts as its own. With the race
			// detector, much of this process's memory is private.
			require.Greater(t, memory.RSSBytes-memory.PSSBytes, int64(90<<20), "the engine shares its host's pages")
			require.GreaterOrEqual(t, memory.PeakPSSBytes, memory.PSSBytes)
			require.Less(t, memory.PeakPSSBytes, memory.PeakRSSBytes)
		}
	}
}

// A node that was stopped, or that has a damaged newest checkpoint, continues with unchanged results.
func TestRestartGoesOnTheSame(t *testing.T) {
	server := broker(t, "whole")
	require.NoError(t, server.CreateStream(t.Context(), "parts"))
	until := func(rounds, every int) func(*configs.Config) {
		return func(c *configs.Config) { c.Rounds, c.CheckpointEvery = rounds, every }
	}
	whole := begin(t, assignment(t, server, "whole", t.TempDir(), until(5, 10)))
	whole.ends(ExitDone)
	want, hash := whole.rounds()
	require.Len(t, want, 5)
	require.Positive(t, slices.Max(slices.Collect(maps.Values(want))), "the model never scores: nothing is compared")

	dir := t.TempDir()
	first := begin(t, assignment(t, server, "parts", dir, until(5, 10)))
	first.await("round", func(e event.Event) bool { return e.Type == event.TypeRound })
	first.command(protocol.Command{Type: protocol.CommandStop})
	first.ends(ExitDone)
	states := first.states()
	got, _ := first.rounds()
	if len(got) < 5 {
		require.Equal(t, event.StateStopped, states[len(states)-1])
	}
	require.FileExists(t, filepath.Join(dir, fmt.Sprintf("checkpoint-%08d.json", len(got))), "it checkpoints before it goes")

	// The next process ends at round 5, with checkpoints of rounds 4 and 5. The test truncates the last one. The
	// process after it continues at 4, where the journal has the update of the last round.
	second := begin(t, assignment(t, server, "parts", dir, until(5, 1)))
	require.Equal(t, len(got), second.loaded().StartRound)
	second.ends(ExitDone)
	again, secondHash := second.rounds()
	for round, reward := range again {
		got[round] = reward
	}
	require.Equal(t, want, got)
	if len(again) > 0 {
		require.Equal(t, hash, secondHash)
	}
	newest := filepath.Join(dir, "checkpoint-00000005.safetensors")
	info, err := os.Stat(newest)
	require.NoError(t, err)
	require.NoError(t, os.Truncate(newest, info.Size()/2))

	third := begin(t, assignment(t, server, "parts", dir, until(5, 1)))
	require.Equal(t, 4, third.loaded().StartRound)
	third.ends(ExitDone)
	computed, thirdHash := third.rounds()
	require.Empty(t, computed)
	require.NotContains(t, third.states(), event.StateGenerating)
	replayed := third.await("loaded again", func(e event.Event) bool { return e.Loaded != nil && e.Loaded.ReplayedRounds > 0 }).Loaded
	require.Equal(t, 5, replayed.StartRound)
	require.Equal(t, 1, replayed.ReplayedRounds)
	require.Positive(t, replayed.ReplaySeconds)
	require.Equal(t, hash, thirdHash)
	files, err := filepath.Glob(filepath.Join(dir, "checkpoint-*"))
	require.NoError(t, err)
	require.Len(t, files, 2*keepCheckpoints, "%v", files)
}

// A node ends within two seconds of its launcher, with its engine, in any state.
func TestOrphanLeaves(t *testing.T) {
	server := broker(t, "orphan")
	cases := []struct {
		name   string
		state  event.State
		change func(*configs.Config)
		peers  []string
	}{
		{"at the barrier", event.StateBarrier, func(c *configs.Config) { c.NumTransplantTrees = 1 }, []string{"node_0", "node_1"}},
		{"in the middle of a call", event.StateGenerating, func(c *configs.Config) { c.NumTrainSamples, c.NumGenerations = 100, 64 }, []string{"node_0"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			start := assignment(t, server, "orphan", t.TempDir(), c.change)
			start.Members = protocol.Members(c.peers...)
			l := begin(t, start)
			l.await(string(c.state), func(e event.Event) bool { return e.State == c.state })
			began := time.Now()
			l.in.Close()
			l.ends(ExitFailed)
			require.Less(t, time.Since(began), 2*time.Second)
			require.Zero(t, l.failure(), "there is nobody to tell")
		})
	}
}

// Another process kills the engine.
func TestEngineIsKilled(t *testing.T) {
	l := begin(t, assignment(t, broker(t, "killed"), "killed", t.TempDir(), func(c *configs.Config) {
		c.NumTrainSamples, c.NumGenerations = 100, 64
	}))
	pid := l.loaded().EnginePID
	l.await("generating", func(e event.Event) bool { return e.State == event.StateGenerating })
	require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
	l.ends(ExitFailed)
	require.Equal(t, event.CauseEngine, l.failure().Cause)
	require.Contains(t, l.failure().Message, "signal: killed; another process killed it")
}

// Another process stops the engine's process. The node continues it and reports that to the launcher.
func TestAStoppedEngineGoesOn(t *testing.T) {
	start := assignment(t, broker(t, "frozen"), "frozen", t.TempDir(), func(c *configs.Config) {
		c.Rounds, c.NumTrainSamples, c.NumGenerations = 1, 16, 32
	})
	l := begin(t, start)
	pid := l.loaded().EnginePID
	l.await("generating", func(e event.Event) bool { return e.State == event.StateGenerating })
	require.NoError(t, syscall.Kill(pid, syscall.SIGSTOP))
	warning := l.await("a warning", func(e event.Event) bool { return e.Type == event.TypeWarning })
	require.Contains(t, warning.Message, "suspended")
	l.ends(ExitDone)
}

// TestProcessFails starts nodes that cannot work. Each reports the reason, with the cause that the launcher acts
// on.
func TestProcessFails(t *testing.T) {
	server := broker(t, "fails")
	cases := []struct {
		name, cause string
		code        int
		change      func(t *testing.T, start *protocol.Start)
	}{
		{"configuration that is no object", event.CauseConfig, ExitConfig, func(_ *testing.T, s *protocol.Start) { s.Config = []byte(`"text"`) }},
		{"configuration out of range", event.CauseConfig, ExitConfig, func(_ *testing.T, s *protocol.Start) { s.Config = []byte(`{"rounds":0}`) }},
		{"unknown tokenizer", event.CauseConfig, ExitConfig, func(_ *testing.T, s *protocol.Start) { s.Tokenizer = "runes" }},
		{"a folder that can't be made", event.CauseConfig, ExitConfig, func(t *testing.T, s *protocol.Start) {
			s.Dir = filepath.Join(t.TempDir(), "file", "folder")
			require.NoError(t, os.WriteFile(filepath.Dir(s.Dir), nil, 0o644))
		}},
		{"no such Python", event.CausePython, ExitFailed, func(_ *testing.T, s *protocol.Start) { s.Python = "/no/such/python" }},
		{"a corrupt model", event.CauseModel, ExitFailed, func(t *testing.T, s *protocol.Start) {
			dir := t.TempDir()
			require.NoError(t, os.CopyFS(dir, os.DirFS(s.ModelDir)))
			require.NoError(t, os.Truncate(filepath.Join(dir, "model.safetensors"), 1000))
			s.ModelDir = dir
		}},
		{"a wrong token", event.CauseExchange, ExitFailed, func(_ *testing.T, s *protocol.Start) { s.Exchange.Token = "guess" }},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			start := assignment(t, server, "fails", t.TempDir(), nil)
			c.change(t, &start)
			l := begin(t, start)
			l.ends(c.code)
			require.Equal(t, c.cause, l.failure().Cause, l.failure().Message)
			require.NotEmpty(t, l.failure().Message)
		})
	}
}

func TestDiskIsFull(t *testing.T) {
	hermetic.Root(t)
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Skip("no small file system can be mounted: ", err)
	}
	t.Cleanup(func() { require.NoError(t, syscall.Unmount(dir, 0)) })
	l := begin(t, assignment(t, broker(t, "full"), "full", dir, nil))
	l.ends(ExitFailed)
	require.Equal(t, event.CauseDisk, l.failure().Cause)
	require.Contains(t, l.failure().Message, "No space left")
	rewards, _ := l.rounds()
	require.NotEmpty(t, rewards, "a round that was done is told")
}

func TestStoppedBeforeLoading(t *testing.T) {
	start := assignment(t, broker(t, "early"), "early", t.TempDir(), nil)
	stdin, in := io.Pipe()
	out, stdout := io.Pipe()
	code := make(chan int, 1)
	go func() { code <- Process(t.Context(), stdin, stdout, io.Discard, nil, slog.New(slog.DiscardHandler)) }()
	send, events := event.NewWriter(in), event.NewReader(out, event.MaxLine)
	require.NoError(t, send.Write(protocol.Command{Type: protocol.CommandStart, Start: &start}))
	var seen []event.Type
	var state event.State
	for state != event.StateStopped {
		var e event.Event
		require.NoError(t, events.Read(&e))
		seen, state = append(seen, e.Type), e.State
		if e.Type == event.TypeLease {
			go func() { _ = send.Write(protocol.Command{Type: protocol.CommandStop}) }()
		}
	}
	require.Equal(t, []event.Type{event.TypeState, event.TypeLease, event.TypeRelease, event.TypeState}, seen)
	require.Equal(t, ExitDone, <-code)
	in.Close()
}

func TestClassify(t *testing.T) {
	engine := func(kind, message string) error { return &policy.Error{Kind: kind, Message: message} }
	cases := []struct {
		err  error
		want string
	}{
		{engine(policy.KindOutOfMemory, "CUDA out of memory"), event.CauseOutOfMemory},
		{engine(policy.KindModel, "model.safetensors is missing"), event.CauseModel},
		{engine(policy.KindDevice, "cuda:3 is not there"), event.CauseDevice},
		{engine(policy.KindBadRequest, "top_k"), event.CauseConfig},
		{engine(policy.KindInternal, "bug"), event.CauseEngine},
		{engine(policy.KindCheckpoint, "/a: No space left on device"), event.CauseDisk},
		{engine(policy.KindSelfTest, "differ"), event.CausePython},
		{engine(policy.KindCheckpoint, "/a: Disk quota exceeded"), event.CauseDisk},
		{engine(policy.KindCheckpoint, "/a: Permission denied"), event.CauseEngine},
		{&os.PathError{Op: "write", Path: "/a", Err: syscall.ENOSPC}, event.CauseDisk},
		{policy.ErrEngineGone, event.CauseEngine},
		{policy.ErrProtocol, event.CauseEngine},
		{policy.ErrEngineStalled, event.CauseStalled},
		{exchange.ErrNoQuorum, event.CauseExchange},
		{exchange.ErrClosed, event.CauseExchange},
		{errors.New("what"), event.CauseUnknown},
		{&Failure{event.CausePython, errors.New("no torch")}, event.CausePython},
	}
	for _, c := range cases {
		require.Equal(t, c.want, classify(fmt.Errorf("round 3: %w", c.err)).Cause, "%v", c.err)
	}
}

func TestDoubts(t *testing.T) {
	c := testConfig(t)
	require.Empty(t, loadWarnings(c, "cuda:0", policy.LoadResult{SelfTestMaxAbsDiff: 0.4, SelfTestLimit: 0.5}, nil))
	c.Precision = "bf16"
	require.Equal(t, []string{"log-probabilities of the same tokens differ by up to 0.75 nats between sampling and training, and rounding in " +
		"precision bf16 explains up to 0.5. Try: precision tf32"}, loadWarnings(c, "cuda:0", policy.LoadResult{SelfTestMaxAbsDiff: 0.75, SelfTestLimit: 0.5}, nil))
	c.Precision = "fp16"
	require.Empty(t, loadWarnings(c, "cpu", policy.LoadResult{}, nil), "it has no effect there")
	require.Contains(t, loadWarnings(c, "cuda:0", policy.LoadResult{}, nil)[0], "gradients may underflow")
}

// Memory settings do not change what is learned. Offloads give the same weights to the bit. Checkpointing differs
// by rounding.
func TestMemorySettings(t *testing.T) {
	server := broker(t, "plain")
	plain := begin(t, assignment(t, server, "plain", t.TempDir(), nil))
	plain.ends(ExitDone)
	rewards, hash := plain.rounds()

	require.NoError(t, server.CreateStream(t.Context(), "thrifty"))
	start := assignment(t, server, "thrifty", t.TempDir(), func(c *configs.Config) {
		// Fp16 means fp32 on a CPU.
		c.OptimizerOffload, c.ParamOffload, c.ClearCacheEveryNRounds, c.Precision = true, true, 1, "fp16"
	})
	start.TrimAfter = true
	l := begin(t, start)
	l.ends(ExitDone)
	got, gotHash := l.rounds()
	require.Equal(t, rewards, got)
	require.Equal(t, hash, gotHash)

	var last event.Memory
	for _, e := range l.events {
		if e.Type == event.TypeMemory {
			last = *e.Memory
		}
	}
	require.Greater(t, last.ResidentBytes, int64(1<<19), "a CPU's is without the interpreter")
	require.Less(t, last.ResidentBytes, last.RSSBytes)
	require.Equal(t, 12, last.MicroBatch)
	require.Zero(t, last.BudgetBytes)
}
