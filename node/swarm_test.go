package node

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/internal/hermetic"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/node/exchange/natsbus"
	"github.com/sapo-swarm/swarm/node/policy"
	"github.com/sapo-swarm/swarm/node/policy/policytest"
	"github.com/sapo-swarm/swarm/node/pretrain"
	"github.com/sapo-swarm/swarm/node/protocol"
	"github.com/sapo-swarm/swarm/node/task"
	"github.com/sapo-swarm/swarm/node/tokenizer"
)

// soon bounds every wait of a test.
const soon = 2 * time.Minute

var (
	lab      policytest.Lab
	training sync.Mutex
	trained  string // folder of the trained tiny model
)

func TestMain(m *testing.M) {
	if isStandIn() {
		os.Exit(standIn())
	}
	if point := os.Getenv(pointVariable); point != "" {
		os.Exit(mortal(point)) // this process is a node
	}
	code := hermetic.Main(m)
	lab.Close()
	if trained != "" {
		os.RemoveAll(filepath.Dir(trained))
	}
	os.Exit(code)
}

// testConfig is a small experiment on tasks of the nano set that the tiny model sometimes answers.
func testConfig(t testing.TB) configs.Config {
	t.Helper()
	c := configs.Default()
	c.Experiment, c.Model, c.Device, c.SwarmSize, c.Rounds = "test", "tiny", "cpu", 3, 3
	c.NumTrainSamples, c.NumTransplantTrees, c.NumGenerations = 2, 2, 6
	c.MaxPromptLength, c.MaxCompletionLength, c.LearningRate = 192, 24, 1e-3
	c.BarrierDeadline, c.CheckpointEvery, c.EvalQuestions = soon.Seconds(), 1, 0 // evaluate_test.go evaluates
	c.Tasks = configs.Tasks{Set: "nano", SystemPrompt: "none", Mixture: easyTasks()}
	require.NoError(t, configs.Validate(c))
	return c
}

// easyTasks are easy enough that a tiny model is sometimes right after seconds of training.
func easyTasks() []configs.TaskSpec {
	return []configs.TaskSpec{
		{Name: "basic_arithmetic", Weight: 1, Params: map[string]any{
			"min_terms": 2, "max_terms": 2, "min_digits": 1, "max_digits": 1, "operators": []any{"+", "-", "*"},
			"allow_parentheses": false, "allow_negation": false, "format_style": "simple", "whitespace": "single",
		}},
		{Name: "base_conversion", Weight: 1, Params: map[string]any{"min_base": 2, "max_base": 4, "min_value": 1, "max_value": 15}},
		{Name: "calendar_arithmetic", Weight: 1, Params: map[string]any{
			"year": 2023, "tasks": []any{"weekday_of_date", "is_leap_year"}, "offset_upper_bound": 10, "leap_year_range": 20,
		}},
	}
}

func bytesTokenizer(t testing.TB) tokenizer.Tokenizer {
	t.Helper()
	tokens, err := tokenizer.New(tokenizer.NameBytes)
	require.NoError(t, err)
	return tokens
}

func openTasks(t testing.TB, c configs.Config) *task.Set {
	t.Helper()
	tasks, err := task.Open(c.Tasks)
	require.NoError(t, err)
	return tasks
}

// trainedModel returns a folder with a tiny model that mostly answers in tags and is sometimes right, so that
// rounds have an advantage to learn from. It is trained once.
func trainedModel(t testing.TB) string {
	t.Helper()
	training.Lock()
	defer training.Unlock()
	if trained != "" {
		return trained
	}
	dir, err := os.MkdirTemp("", "swarm-node-test-")
	require.NoError(t, err)
	c := testConfig(t)
	result, err := pretrain.Run(t.Context(), lab.Engines(t, 1)[0], pretrain.Options{
		Shape:  configs.Shape{Layers: 2, Heads: 2, Width: 32, Context: policytest.Context, Vocabulary: policytest.Vocabulary},
		Tokens: bytesTokenizer(t), Tasks: openTasks(t, c), Seed: 1, Threads: 1, Out: filepath.Join(dir, "model"),
		Recipe: configs.Recipe{Steps: 120, Batch: 16, LearningRate: 1e-2, TagShare: 1},
	}, nil)
	require.NoError(t, err)
	t.Logf("the tiny model: loss %.2f after %.1f s", result.Loss, result.Seconds)
	trained = filepath.Join(dir, "model")
	return trained
}

// broker starts a message bus with a run's stream.
func broker(t testing.TB, run string) *natsbus.Server {
	t.Helper()
	server, err := natsbus.Start(natsbus.ServerOptions{Dir: t.TempDir(), Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	t.Cleanup(server.Shutdown)
	require.NoError(t, server.CreateStream(t.Context(), run))
	return server
}

func join(t testing.TB, server *natsbus.Server, run, node string) *natsbus.Bus {
	t.Helper()
	bus, err := natsbus.Dial(t.Context(), natsbus.Options{URL: server.URL(), Token: server.Token(), Run: run, Node: node})
	require.NoError(t, err)
	t.Cleanup(func() { bus.Close() })
	return bus
}

// host is a Host that the test controls.
type host struct {
	lease func(ctx context.Context, phase string) (func(), error) // nil: always granted
	stop  chan struct{}

	mu      sync.Mutex
	members []protocol.Member
	changed chan struct{}
	state   event.State
	reached *sync.Cond
}

func newHost(peers ...string) *host {
	h := &host{stop: make(chan struct{}), members: protocol.Members(peers...), changed: make(chan struct{})}
	h.reached = sync.NewCond(&h.mu)
	return h
}

func (h *host) Lease(ctx context.Context, phase string) (func(), error) {
	select {
	case <-h.stop:
		return nil, ErrStopped
	default:
	}
	if h.lease == nil {
		return func() {}, nil
	}
	return h.lease(ctx, phase)
}

func (h *host) State(state event.State, _ int) {
	h.mu.Lock()
	h.state = state
	h.mu.Unlock()
	h.reached.Broadcast()
}

func (h *host) Members() ([]protocol.Member, <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.members, h.changed
}

func (h *host) Stopping() <-chan struct{} { return h.stop }

// await returns when the node is in this state.
func (h *host) await(state event.State) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for h.state != state {
		h.reached.Wait()
	}
}

func (h *host) setPeers(peers ...string) {
	members := protocol.Members(peers...)
	for i := range members {
		members[i].Trust = h.members[0].Trust
	}
	h.setMembers(members...)
}

func (h *host) setMembers(members ...protocol.Member) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.members = members
	close(h.changed)
	h.changed = make(chan struct{})
}

// trust sets how all members' rollouts are checked.
func (h *host) trust(how string) {
	members := slices.Clone(h.members)
	for i := range members {
		members[i].Trust = how
	}
	h.setMembers(members...)
}

// recorder passes calls on and records the updates.
type recorder struct {
	Policy
	mu      sync.Mutex
	updates []policy.UpdateParams
}

func (r *recorder) Update(ctx context.Context, p policy.UpdateParams) (policy.UpdateResult, error) {
	r.mu.Lock()
	r.updates = append(r.updates, p)
	r.mu.Unlock()
	return r.Policy.Update(ctx, p)
}

// scripted is a Policy with scripted answers, because a random model would never score.
type scripted struct {
	answer    func(prompt, generation int) string // text of a completion, which ends with EOS
	generated []policy.GenerateParams
	failure   error   // of Update
	apart     float64 // largest difference to the sampler that Update reports
	generate  func(context.Context) error
	likely    func(text string) float64 // lowest log-probability among a completion's tokens; nil: -1
	scored    []policy.LogprobsParams
}

// Logprobs gives the last token of a completion the lowest log-probability.
func (s *scripted) Logprobs(_ context.Context, p policy.LogprobsParams) (policy.LogprobsResult, error) {
	s.scored = append(s.scored, p)
	var result policy.LogprobsResult
	for _, q := range p.Sequences {
		text := make([]byte, 0, len(q.Completion))
		logprobs := make([]float64, len(q.Completion))
		for i, id := range q.Completion {
			logprobs[i] = -0.5
			if id < 256 {
				text = append(text, byte(id))
			}
		}
		logprobs[len(logprobs)-1] = -1
		if s.likely != nil {
			logprobs[len(logprobs)-1] = s.likely(string(text))
		}
		result.Logprobs = append(result.Logprobs, logprobs)
	}
	return result, nil
}

func (s *scripted) Generate(ctx context.Context, p policy.GenerateParams) (policy.GenerateResult, error) {
	s.generated = append(s.generated, p)
	if s.generate != nil {
		if err := s.generate(ctx); err != nil {
			return policy.GenerateResult{}, err
		}
	}
	var result policy.GenerateResult
	for i := range p.Prompts {
		for g := range p.NumGenerations {
			var ids []int
			for _, b := range []byte(s.answer(i, g)) {
				ids = append(ids, int(b))
			}
			ids = append(ids, p.EOSTokenID)
			logprobs := make([]float64, len(ids))
			for k := range logprobs {
				logprobs[k] = -float64(i*p.NumGenerations + g + 1)
			}
			result.Completions = append(result.Completions, ids)
			result.Logprobs = append(result.Logprobs, logprobs)
			result.Terminated = append(result.Terminated, true)
		}
	}
	return result, nil
}

// Update counts the tokens with sampling log-probabilities, like an engine.
func (s *scripted) Update(_ context.Context, p policy.UpdateParams) (policy.UpdateResult, error) {
	result := policy.UpdateResult{Loss: 0.5, GradNorm: 2, Steps: 1}
	for _, q := range p.Sequences {
		result.SamplingTokens += int64(len(q.SamplingLogprobs))
	}
	if result.SamplingTokens > 0 {
		result.SamplingLogpDifferenceMax, result.SamplingLogpDifferenceMean = s.apart, s.apart/8
	}
	return result, s.failure
}

// newNode returns a node with real parts except the host and, often, the policy.
func newNode(t testing.TB, c configs.Config, id string, p Policy, bus *natsbus.Bus, h Host) *Node {
	t.Helper()
	return &Node{
		ID: id, Config: c, Policy: p, Tasks: openTasks(t, c), Tokens: bytesTokenizer(t), Swarm: bus, Host: h,
		Logger: slog.New(slog.DiscardHandler), Context: policytest.Context,
	}
}
