package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/node"
	"github.com/sapo-swarm/swarm/node/exchange"
	"github.com/sapo-swarm/swarm/node/exchange/membership"
	"github.com/sapo-swarm/swarm/node/exchange/natsbus"
	"github.com/sapo-swarm/swarm/node/policy"
	"github.com/sapo-swarm/swarm/node/protocol"
	"github.com/sapo-swarm/swarm/node/task"
)

// A simulated worker is a real worker without engines: it enrolls, joins, sends heartbeats, keeps an outbox and
// delivers. Its nodes are node.Node over the real exchange. Their policy only sleeps and then answers with about 200
// tokens of text.

const (
	simTokens  = 200
	simContext = 4096
)

// simWorker is a simulated worker.
type simWorker struct {
	name        string
	invitation  membership.Invitation
	credentials membership.Credentials
	uplink      membership.Uplink
	outbox      *membership.Outbox
	welcome     membership.Welcome
	config      configs.Config
	assignments []membership.NodeAssignment
	client      *membership.DeliveryClient

	mu       sync.Mutex
	roster   []protocol.Member
	changed  chan struct{}
	progress []membership.Progress
}

// joinSimulated adds a worker with that many nodes to a swarm. dir is the folder of its outbox.
func joinSimulated(ctx context.Context, invitation, name, dir string, nodes int) (*simWorker, error) {
	w := &simWorker{name: name, changed: make(chan struct{})}
	var err error
	if w.invitation, err = membership.ParseInvitation(invitation); err != nil {
		return nil, err
	}
	if w.credentials, err = natsbus.Enrol(ctx, w.invitation, name, natsbus.TLSOptions{}); err != nil {
		return nil, fmt.Errorf("enrol: %w", err)
	}
	if w.uplink, err = natsbus.DialUplink(ctx, natsbus.UplinkOptions{Invitation: w.invitation, Credentials: w.credentials, Logger: quietly()}); err != nil {
		return nil, fmt.Errorf("dial: %w", err)
	}
	w.welcome, err = w.uplink.Hello(ctx, membership.Hello{
		Protocol: membership.Protocol, Version: "dev", Host: name, Process: name, Time: event.Now(),
	})
	if err != nil {
		return nil, fmt.Errorf("hello: %w", err)
	}
	if err := json.Unmarshal(w.welcome.Config, &w.config); err != nil {
		return nil, err
	}
	w.config.MaxCompletionLength = simTokens + 1
	join := membership.Join{Protocol: membership.Protocol, Run: w.welcome.Run, Device: "none"}
	for range nodes {
		join.Nodes = append(join.Nodes, membership.NodeInfo{Model: "sleeper"})
	}
	joined, err := w.uplink.Join(ctx, join)
	if err != nil {
		return nil, fmt.Errorf("join: %w", err)
	}
	w.assignments, w.roster = joined.Assignments, joined.Roster.Members
	for _, s := range w.assignments {
		w.progress = append(w.progress, membership.Progress{Node: s.Node, Round: s.From, State: event.StateQueued})
	}
	if w.outbox, err = membership.OpenOutbox(dir, quietly()); err != nil {
		return nil, err
	}
	w.client = w.newDeliveryClient()
	return w, nil
}

// startProgram starts the build for users, if SWARM_PROGRAM has its path. It does not follow stdout.
func startProgram(t *testing.T, home string, args ...string) *running {
	t.Helper()
	r := &running{t: t, home: home, cmd: exec.Command(stormProgram(), append([]string{"--home", home}, args...)...), stderr: &lockedBuffer{}}
	r.cmd.Env, r.cmd.Stderr, r.cmd.WaitDelay = stormEnviron(t, home), r.stderr, 10*time.Second
	require.NoError(t, r.cmd.Start())
	t.Cleanup(func() {
		if t.Failed() {
			_ = r.cmd.Process.Signal(syscall.SIGQUIT) // print goroutine stacks
			_ = r.cmd.Wait()
			said, err := keep("swarm-net-program-*.stderr", r.stderr.String())
			t.Logf("what the program said: %s (%v)", said, err)
		}
		for _, pid := range processes(home) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	return r
}

// keep writes diagnostics to a new temporary file, which stays, and returns its path. pattern is os.CreateTemp's.
func keep(pattern, text string) (string, error) {
	file, err := os.CreateTemp("", pattern)
	if err != nil {
		return "", err
	}
	_, err = file.WriteString(text)
	return file.Name(), errors.Join(err, file.Close())
}

func quietly() *slog.Logger { return slog.New(slog.DiscardHandler) }

// newDeliveryClient makes the client that sends heartbeats and delivers events.
func (w *simWorker) newDeliveryClient() *membership.DeliveryClient {
	return &membership.DeliveryClient{
		Uplink: w.uplink, Outbox: w.outbox, Run: w.welcome.Run, Process: w.name, Logger: quietly(),
		Progress: func() []membership.Progress {
			w.mu.Lock()
			defer w.mu.Unlock()
			return append([]membership.Progress(nil), w.progress...)
		},
		Members: func(members []protocol.Member) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.roster = members
			close(w.changed)
			w.changed = make(chan struct{})
		},
		Ended:   func(string, string) {},
		Trouble: func(error) {},
	}
}

func (w *simWorker) close() error { return errors.Join(w.outbox.Close(), w.uplink.Close()) }

// simNode is a node of a simulated worker, and also the node's Host.
type simNode struct {
	*node.Node
	worker *simWorker
	index  int // among the worker's nodes
	way    *timedExchange
}

// open dials the exchange for one of the worker's assignments.
func (w *simWorker) open(ctx context.Context, index int, tasks *task.Set, sleep *sleeper) (*simNode, error) {
	assignment := w.assignments[index]
	bus, err := natsbus.Dial(ctx, natsbus.Options{
		URL: w.invitation.URL(), Token: w.credentials.Secret, Worker: w.credentials.Worker, Run: w.welcome.Run, Node: assignment.Node, Logger: quietly(),
	})
	if err != nil {
		return nil, fmt.Errorf("dial for %s: %w", assignment.Node, err)
	}
	n := &simNode{worker: w, index: index, way: &timedExchange{Exchange: bus, rounds: map[int]*exchangeTimes{}}}
	n.Node = &node.Node{
		ID: assignment.Node, Config: w.config, Policy: sleep, Tasks: tasks, Tokens: sleep.tokens, Swarm: n.way, Host: n, Logger: quietly(),
		Context: simContext, Mode: node.Mode{Remote: true},
	}
	return n, nil
}

// train runs rounds, and reports each like a real worker's launcher.
func (n *simNode) train(ctx context.Context, rounds int) error {
	from := n.worker.assignments[n.index].From
	for round := from; round < from+rounds; round++ {
		report, err := n.Round(ctx, round)
		if err != nil {
			return fmt.Errorf("%s, round %d: %w", n.ID, round, err)
		}
		e := event.Event{Type: event.TypeRound, Time: event.Now(), Round: &report}
		if err := n.tell(e); err != nil {
			return err
		}
	}
	n.State(event.StateDone, from+rounds)
	return nil
}

func (n *simNode) tell(e event.Event) error {
	e.Run, e.Node, e.Worker = n.worker.welcome.Run, n.ID, n.worker.credentials.Worker
	return n.worker.outbox.Append(e)
}

func (n *simNode) State(state event.State, round int) {
	n.worker.mu.Lock()
	n.worker.progress[n.index].State, n.worker.progress[n.index].Round = state, round
	n.worker.mu.Unlock()
	_ = n.tell(event.Event{Type: event.TypeState, Time: event.Now(), State: state, RoundIndex: round}) // errors of Append are reported with the round
}

func (n *simNode) Members() ([]protocol.Member, <-chan struct{}) {
	n.worker.mu.Lock()
	defer n.worker.mu.Unlock()
	return n.worker.roster, n.worker.changed
}

func (n *simNode) Lease(context.Context, string) (func(), error) { return func() {}, nil }
func (n *simNode) Stopping() <-chan struct{}                     { return nil }

// exchangeTimes are the times of one node's round.
type exchangeTimes struct {
	ready, shared, gathered time.Time
	peers                   []string
	sent, received          int // bytes of rollouts
	late                    int // peers whose batch was missing
}

// timedExchange records when batches were shared and gathered.
type timedExchange struct {
	exchange.Exchange
	mu     sync.Mutex
	rounds map[int]*exchangeTimes
}

func (x *timedExchange) at(round int) *exchangeTimes {
	if x.rounds[round] == nil {
		x.rounds[round] = &exchangeTimes{}
	}
	return x.rounds[round]
}

func (x *timedExchange) Publish(ctx context.Context, batch exchange.Batch) error {
	data, err := exchange.Encode(batch)
	if err != nil {
		return err
	}
	ready := time.Now()
	err = x.Exchange.Publish(ctx, batch)
	x.mu.Lock()
	defer x.mu.Unlock()
	t := x.at(batch.Round)
	t.ready, t.shared, t.sent = ready, time.Now(), len(data)
	return err
}

func (x *timedExchange) Gather(ctx context.Context, round int, peers []string, barrier exchange.Barrier) ([]*exchange.Received, error) {
	received, err := x.Exchange.Gather(ctx, round, peers, barrier)
	x.mu.Lock()
	defer x.mu.Unlock()
	t := x.at(round)
	t.gathered, t.peers, t.late, t.received = time.Now(), peers, 0, 0
	for _, r := range received {
		if r == nil {
			t.late++
		} else {
			t.received += r.Bytes
		}
	}
	return received, err
}

// sleeper is a policy that sleeps and always returns the same G answers, a third of them right.
type sleeper struct {
	tokens *fourBytes
	sleep  time.Duration
	spread float64 // fraction of sleep: the time is uniform around it
	dice   *rand.Rand
	ids    [][]int
}

func newSleeper(tokens *fourBytes, sleep time.Duration, spread float64, generations int, seed uint64) *sleeper {
	s := &sleeper{tokens: tokens, sleep: sleep, spread: spread, dice: rand.New(rand.NewPCG(seed, 1))}
	for g := range generations {
		text := fmt.Sprintf("<answer>%d</answer>", g%3+1)
		filler := strings.Repeat("Let us think about the remainder once more. ", 4*simTokens/40)
		s.ids = append(s.ids, append(tokens.Encode(filler[:4*simTokens-len(text)-4]+text), tokens.EOS()))
	}
	return s
}

func (s *sleeper) Generate(ctx context.Context, p policy.GenerateParams) (policy.GenerateResult, error) {
	timer := time.NewTimer(time.Duration(float64(s.sleep) * (1 + s.spread*(s.dice.Float64()-0.5))))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return policy.GenerateResult{}, context.Cause(ctx)
	}
	count := len(p.Prompts) * p.NumGenerations
	r := policy.GenerateResult{Terminated: make([]bool, count), Logprobs: make([][]float64, count)}
	for i := range count {
		r.Completions = append(r.Completions, s.ids[i%p.NumGenerations])
		r.Terminated[i] = true
	}
	return r, nil
}

// Logprobs returns zeros: every token is certain.
func (s *sleeper) Logprobs(_ context.Context, p policy.LogprobsParams) (policy.LogprobsResult, error) {
	var result policy.LogprobsResult
	for _, q := range p.Sequences {
		result.Logprobs = append(result.Logprobs, make([]float64, len(q.Completion)))
	}
	return result, nil
}

func (s *sleeper) Update(context.Context, policy.UpdateParams) (policy.UpdateResult, error) {
	return policy.UpdateResult{Steps: 1}, nil
}

// fourBytes is a tokenizer with four bytes of text per token, about GPT-2's average for English. It caches encoded
// text, because a thousand nodes share one process here.
type fourBytes struct {
	mu    sync.RWMutex
	known map[string][]int
}

const fourBytesEnd = 1 << 32

func newFourBytes() *fourBytes { return &fourBytes{known: map[string][]int{}} }

func (f *fourBytes) Encode(text string) []int {
	f.mu.RLock()
	ids, known := f.known[text]
	f.mu.RUnlock()
	if known {
		return ids[:len(ids):len(ids)]
	}
	for i := 0; i < len(text); i += 4 {
		id := 0
		for k, b := range []byte(text[i:min(i+4, len(text))]) {
			id |= int(b) << (8 * k)
		}
		ids = append(ids, id)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.known[strings.Clone(text)] = ids
	return ids[:len(ids):len(ids)]
}

func (f *fourBytes) Decode(ids []int) string {
	text := make([]byte, 0, 4*len(ids))
	for _, id := range ids {
		for ; id > 0 && id < fourBytesEnd; id >>= 8 {
			text = append(text, byte(id))
		}
	}
	return string(text)
}

func (f *fourBytes) EOS() int       { return fourBytesEnd }
func (f *fourBytes) Stops() []int   { return nil }
func (f *fourBytes) VocabSize() int { return fourBytesEnd + 1 }
func (f *fourBytes) Name() string   { return "four bytes" }

func TestFourBytesKeepText(t *testing.T) {
	f := newFourBytes()
	for _, text := range []string{"", "a", "abcd", "abcde", "12 mod 3, plus 1"} {
		require.Equal(t, text, f.Decode(f.Encode(text)))
		require.Equal(t, text, f.Decode(append(f.Encode(text), f.EOS())))
	}
}
