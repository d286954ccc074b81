package verify

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/internal/hermetic"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/node"
	"github.com/sapo-swarm/swarm/node/exchange"
	"github.com/sapo-swarm/swarm/node/exchange/natsbus"
	"github.com/sapo-swarm/swarm/node/journal"
	"github.com/sapo-swarm/swarm/node/model"
	"github.com/sapo-swarm/swarm/node/policy"
	"github.com/sapo-swarm/swarm/node/policy/policytest"
	"github.com/sapo-swarm/swarm/node/protocol"
	"github.com/sapo-swarm/swarm/node/task"
	"github.com/sapo-swarm/swarm/node/tokenizer"
)

const rounds = 3

var lab policytest.Lab

func TestMain(m *testing.M) {
	code := hermetic.Main(m)
	lab.Close()
	os.Exit(code)
}

// finished is a run that has ended: its folder and its reported events.
type finished struct {
	dir    string
	config configs.Config
	nodes  []string
	told   map[string][]event.Round
	hashes map[string]map[int]string
	from   map[string]int // nil: all begin with round 0
}

// members returns the run's nodes with their first rounds.
func (f *finished) members() []protocol.Member {
	members := protocol.Members(f.nodes...)
	for i, m := range members {
		members[i].From = f.from[m.Node]
	}
	return members
}

// Rounds implements Records.
func (f *finished) Rounds(_ context.Context, node string, from, limit int) ([]event.Round, error) {
	var list []event.Round
	for _, r := range f.told[node] {
		if r.Round >= from && len(list) < limit {
			list = append(list, r)
		}
	}
	return list, nil
}

// Hashes implements Records.
func (f *finished) Hashes(_ context.Context, node string) (map[int]string, error) {
	return f.hashes[node], nil
}

func testConfig(t *testing.T) configs.Config {
	t.Helper()
	c := configs.Default()
	c.Experiment, c.Model, c.Device, c.SwarmSize, c.Rounds = "verified", "nano", "cpu", 2, rounds
	c.NumTrainSamples, c.NumTransplantTrees, c.NumGenerations, c.NumIterations = 3, 2, 4, 2
	c.MaxPromptLength, c.MaxCompletionLength, c.LearningRate, c.BarrierDeadline = 192, 24, 1e-3, 120
	nano, err := configs.TaskSet("nano")
	require.NoError(t, err)
	c.Tasks = configs.Tasks{Set: "nano", SystemPrompt: "none", Mixture: nano}
	require.NoError(t, configs.Validate(c))
	return c
}

var (
	nanoOnce sync.Once
	nanoDir  string
	nanoErr  error
)

// startEngine starts an engine with nano's initial weights on one thread. If host is not nil, the engine is its fork.
func startEngine(t *testing.T, c configs.Config, host *policy.HostClient) func(context.Context, string) (Engine, int, error) {
	t.Helper()
	options := lab.Options(t)
	nanoOnce.Do(func() {
		var nano configs.Model
		if nano, nanoErr = configs.LoadModel("nano"); nanoErr == nil {
			nanoDir, nanoErr = model.Resolve(nano, filepath.Dir(options.Dir))
		}
	})
	require.NoError(t, nanoErr)
	start := protocol.Start{Python: options.Python, EngineDir: options.Dir, ModelDir: nanoDir, Device: "cpu", Threads: 1}
	return func(ctx context.Context, _ string) (Engine, int, error) {
		return StartEngine(ctx, start, c, os.Environ(), os.Stderr, host)
	}
}

// kept is an engine of the lab that stays open for the next test.
type kept struct{ *policy.Engine }

func (kept) Close() {}

// reload loads nano's initial weights into an engine of the lab, which is faster than starting one.
func reload(t *testing.T, c configs.Config) func(context.Context, string) (Engine, int, error) {
	t.Helper()
	startEngine(t, c, nil) // nano's folder
	engines := lab.Engines(t, 2)
	return func(ctx context.Context, node string) (Engine, int, error) {
		engine := engines[0]
		if node == "node_1" {
			engine = engines[1]
		}
		loaded, err := engine.Load(ctx, loadParams(protocol.Start{ModelDir: nanoDir, Device: "cpu", Threads: 1}, c))
		return kept{engine}, loaded.ContextLength, err
	}
}

// peerless is a Host that grants every lease.
type peerless struct{ members []protocol.Member }

func (h peerless) Lease(context.Context, string) (func(), error) { return func() {}, nil }
func (h peerless) State(event.State, int)                        {}
func (h peerless) Members() ([]protocol.Member, <-chan struct{}) { return h.members, nil }
func (h peerless) Stopping() <-chan struct{}                     { return nil }

var (
	trainOnce sync.Once
	trained   finished
)

// train runs two nodes once and returns a copy of the result that a test may modify.
func train(t *testing.T) *finished {
	t.Helper()
	lab.Options(t) // skips without torch
	trainOnce.Do(func() {
		dir, err := os.MkdirTemp(filepath.Dir(lab.Options(t).Dir), "run-")
		require.NoError(t, err)
		trained = finished{dir, testConfig(t), []string{"node_0", "node_1"}, map[string][]event.Round{}, map[string]map[int]string{}, nil}
		trainNodes(t, &trained, startEngine(t, trained.config, lab.Options(t).Host))
	})
	require.Len(t, trained.told, 2, "the run failed in another test")
	return trained.copy(t)
}

// copy returns a copy of the run that a test may modify.
func (f *finished) copy(t *testing.T) *finished {
	t.Helper()
	copied := *f
	copied.dir = t.TempDir()
	require.NoError(t, os.CopyFS(copied.dir, os.DirFS(f.dir)))
	copied.told, copied.hashes = map[string][]event.Round{}, map[string]map[int]string{}
	for _, id := range f.nodes {
		copied.told[id] = append([]event.Round(nil), f.told[id]...)
		copied.hashes[id] = map[int]string{}
		for round, hash := range f.hashes[id] {
			copied.hashes[id][round] = hash
		}
	}
	return &copied
}

func trainNodes(t *testing.T, f *finished, start func(context.Context, string) (Engine, int, error)) {
	server, err := natsbus.Start(natsbus.ServerOptions{Dir: t.TempDir()})
	require.NoError(t, err)
	defer server.Shutdown()
	require.NoError(t, server.CreateStream(t.Context(), "run"))
	var mu sync.Mutex
	var group errgroup.Group
	for _, id := range f.nodes {
		group.Go(func() error {
			told, hashes, err := trainNode(t, f, id, server, start)
			mu.Lock()
			f.told[id], f.hashes[id] = told, hashes
			mu.Unlock()
			return err
		})
	}
	require.NoError(t, group.Wait())
	reward := 0.0
	for _, told := range f.told {
		for _, r := range told {
			reward += r.Reward
		}
	}
	require.Positive(t, reward, "the model never scores: nothing is compared")
}

func trainNode(
	t *testing.T, f *finished, id string, server *natsbus.Server, start func(context.Context, string) (Engine, int, error),
) ([]event.Round, map[int]string, error) {
	ctx := t.Context()
	dir := filepath.Join(f.dir, id)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, nil, err
	}
	log, err := journal.Open(dir, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, nil, err
	}
	defer log.Close()
	if err := log.Resume(f.from[id]); err != nil {
		return nil, nil, err
	}
	engine, length, err := start(ctx, id)
	if err != nil {
		return nil, nil, err
	}
	defer engine.Close()
	bus, err := natsbus.Dial(ctx, natsbus.Options{URL: server.URL(), Token: server.Token(), Run: "run", Node: id})
	if err != nil {
		return nil, nil, err
	}
	defer bus.Close()
	tasks, err := task.Open(f.config.Tasks)
	if err != nil {
		return nil, nil, err
	}
	tokens, err := tokenizer.New(tokenizer.NameBytes)
	if err != nil {
		return nil, nil, err
	}
	n := &node.Node{
		ID: id, Config: f.config, Policy: engine, Tasks: tasks, Tokens: tokens, Swarm: bus, Host: peerless{f.members()},
		Logger: slog.New(slog.DiscardHandler), Context: length, Journal: log,
	}
	if n.Validation, err = node.OpenValidation(f.config, tasks, tokens, length, nil); err != nil {
		return nil, nil, err
	}
	var told []event.Round
	hashes := map[int]string{}
	for round := f.from[id]; round < f.config.Rounds; round++ {
		report, err := n.Round(ctx, round)
		if err != nil {
			return nil, nil, err
		}
		told = append(told, report)
		if err := log.Done(round, journal.Done{Event: event.Event{Type: event.TypeRound, Time: event.Now(), Round: &report}}); err != nil {
			return nil, nil, err
		}
		if round == 1 {
			continue // not every round has a checkpoint
		}
		saved, err := engine.Save(ctx, policy.SaveParams{Path: filepath.Join(t.TempDir(), "state"), Format: "checkpoint"})
		if err != nil {
			return nil, nil, err
		}
		hashes[round+1] = saved.WeightHash
		if err := log.Rotate(round + 1); err != nil {
			return nil, nil, err
		}
	}
	return told, hashes, nil
}

// rewrite replaces a node's journal by a valid one with changed rounds.
func (f *finished) rewrite(t *testing.T, id string, change func(*journal.Round)) {
	t.Helper()
	dir, fresh := filepath.Join(f.dir, id), filepath.Join(t.TempDir(), "rewritten")
	require.NoError(t, os.MkdirAll(fresh, 0o755))
	log, err := journal.Open(fresh, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	require.NoError(t, log.Resume(0))
	for round, err := range journal.Rounds(dir, 0) {
		require.NoError(t, err)
		change(&round)
		if round.Generated != nil {
			require.NoError(t, log.Generated(round.Round, *round.Generated))
		}
		if round.Trained != nil {
			require.NoError(t, log.Trained(round.Round, *round.Trained))
		}
		if round.Done != nil {
			require.NoError(t, log.Done(round.Round, *round.Done))
		}
	}
	require.NoError(t, log.Close())
	require.NoError(t, os.RemoveAll(dir))
	require.NoError(t, os.Rename(fresh, dir))
}

func (f *finished) options(t *testing.T) Options {
	t.Helper()
	tokens, err := tokenizer.New(tokenizer.NameBytes)
	require.NoError(t, err)
	return Options{
		Dir: f.dir, Nodes: f.nodes, From: f.from, Config: f.config, Tokens: tokens, Records: f, Start: reload(t, f.config), Exact: true, Jobs: 2,
		Scratch: t.TempDir(), Logger: slog.New(slog.DiscardHandler),
	}
}

func (f *finished) verify(t *testing.T, change func(*Options)) Report {
	t.Helper()
	options := f.options(t)
	if change != nil {
		change(&options)
	}
	report, err := Run(t.Context(), options)
	require.NoError(t, err)
	return report
}

// An unmodified run is reproduced bit for bit, with and without generating again, and on an inexact device.
func TestRunVerifies(t *testing.T) {
	f := train(t)
	for name, change := range map[string]func(*Options){
		"journaled completions": func(o *Options) { o.Start = startEngine(t, o.Config, nil) }, // new processes, not forks as in the run
		"generated again":       func(o *Options) { o.Generate = true },
		"inexact device":        func(o *Options) { o.Exact = false },
	} {
		t.Run(name, func(t *testing.T) {
			var mu sync.Mutex
			told := map[string]int{}
			report := f.verify(t, func(o *Options) {
				change(o)
				o.Progress = func(node string, rounds int) {
					mu.Lock()
					defer mu.Unlock()
					told[node] = rounds
				}
				entries, err := os.ReadDir(o.Scratch)
				require.NoError(t, err)
				require.Empty(t, entries)
			})
			require.True(t, report.Verified, "%+v", report)
			require.Equal(t, 2*rounds, report.Rounds)
			require.Equal(t, map[string]int{"node_0": rounds, "node_1": rounds}, told)
			for i, n := range report.Nodes {
				require.Equal(t, f.nodes[i], n.Node)
				require.Equal(t, 2, n.Checkpoints)
				require.Equal(t, 2, n.EqualHashes)
				require.Empty(t, n.Notes)
			}
		})
	}
}

// A run of an earlier version, which lacks an optional metric of the node's own rollouts, verifies: that metric is
// skipped.
func TestARecordOfAnEarlierProgramVerifies(t *testing.T) {
	f := train(t)
	f.rewrite(t, "node_1", func(r *journal.Round) {
		r.Trained.Report.MeanTerminatedLength = nil
		if r.Done != nil {
			r.Done.Event.Round.MeanTerminatedLength = nil
		}
	})
	for i := range f.told["node_1"] {
		f.told["node_1"][i].MeanTerminatedLength = nil
	}
	report := f.verify(t, func(*Options) {})
	require.True(t, report.Verified, "%+v", report)
}

// Every change in a valid record is reported with its place, its round and the expected value.
func TestTamperingIsNamed(t *testing.T) {
	train(t)
	in := func(round int, change func(*journal.Round)) func(*testing.T, *finished) {
		return func(t *testing.T, f *finished) {
			f.rewrite(t, "node_1", func(r *journal.Round) {
				if r.Round == round {
					change(r)
				}
			})
		}
	}
	for _, test := range []struct {
		name   string
		spoil  func(*testing.T, *finished)
		adjust func(*Options)
		round  int
		what   string // prefix
		where  string
		count  int // differences; 0: one
	}{
		{
			"advantage", in(1, func(r *journal.Round) { r.Trained.Update.Sequences[2].Advantage += 1e-12 }),
			nil, 1, "advantage of sequence 2", Journal, 0,
		},
		{
			"learning rate", in(2, func(r *journal.Round) { r.Trained.Update.LearningRate *= 2 }),
			nil, 2, "options of the update", Journal, 0,
		},
		{
			"prompt token", in(0, func(r *journal.Round) { r.Trained.Update.Prompts[1][0]++ }),
			nil, 0, "token 0 of prompt 1", Journal, 0,
		},
		{
			"token of a completion", in(1, func(r *journal.Round) { r.Generated.Completions[3][0] ^= 1 }),
			nil, 1, "completion 3 of shared rollout 0", Journal, 0,
		},
		{
			"token, generated again", in(1, func(r *journal.Round) { r.Generated.Completions[3][0] ^= 1 }),
			func(o *Options) { o.Generate = true }, 1, "token 0 of completion 3", Journal, 0,
		},
		{
			"sampling seed", in(2, func(r *journal.Round) { r.Generated.Seed++ }),
			nil, 2, "sampling seed", Journal, 0,
		},
		{
			"reward in the training set's report", in(1, func(r *journal.Round) { r.Trained.Report.Reward += 0.25 }),
			nil, 1, "reward", Journal, 0,
		},
		{
			"reward that was told", in(1, func(r *journal.Round) { r.Done.Event.Round.Reward += 0.25 }),
			nil, 1, "reward", Journal, 0,
		},
		{
			"loss that was told", in(0, func(r *journal.Round) { r.Done.Event.Round.Loss += 1e-15 }),
			nil, 0, "loss", Journal, 0,
		},
		{
			"difference to the sampler that was told", in(1, func(r *journal.Round) {
				*r.Done.Event.Round.SamplingLogpDifferenceMax *= 2
			}), nil, 1, "sampling_logp_difference_max", Journal, 0,
		},
		{
			"no difference to the sampler in the database", func(_ *testing.T, f *finished) { f.told["node_1"][1].SamplingLogpDifferenceMean = nil },
			nil, 1, "sampling_logp_difference_mean", Database, 0,
		},
		{
			"peer's count", in(1, func(r *journal.Round) { r.Trained.Report.Peers[0].Used++ }),
			nil, 1, "peer node_0", Journal, 0,
		},
		{
			"what was shared", in(0, func(r *journal.Round) {
				var batch exchange.Batch
				if err := json.Unmarshal(r.Generated.Batch, &batch); err != nil {
					panic(err)
				}
				batch.Rollouts[1].Question += "?"
				r.Generated.Batch, _ = exchange.Encode(batch)
			}), nil, 0, "question of shared rollout 1", Journal, 0,
		},
		{
			"reward in the database", func(_ *testing.T, f *finished) { f.told["node_1"][1].Reward += 0.125 },
			nil, 1, "reward", Database, 0,
		},
		{
			"gradient norm and steps in the database", func(_ *testing.T, f *finished) {
				f.told["node_1"][2].GradNorm = math.Nextafter(f.told["node_1"][2].GradNorm, 2)
				f.told["node_1"][2].Steps++
			}, nil, 2, "steps", Database, 2,
		},
		{
			"round missing in the database", func(_ *testing.T, f *finished) {
				f.told["node_1"] = append(f.told["node_1"][:1], f.told["node_1"][2:]...)
			},
			nil, 1, "round", Database, 0,
		},
		{
			"last round missing in the database", func(_ *testing.T, f *finished) { f.told["node_1"] = f.told["node_1"][:2] },
			nil, 2, "round", Database, 0,
		},
		{
			"weights", func(_ *testing.T, f *finished) { f.hashes["node_1"][3] = strings.Repeat("0", 64) },
			nil, 2, "weight_hash", Database, 0,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := train(t)
			test.spoil(t, f)
			f.nodes = f.nodes[1:] // the other node's check reads this journal too
			report := f.verify(t, func(o *Options) {
				o.Nodes = trained.nodes
				if test.adjust != nil {
					test.adjust(o)
				}
			})
			require.False(t, report.Verified)
			n := report.Nodes[1]
			require.Empty(t, n.Damage)
			require.Len(t, n.Differences, max(1, test.count), "%+v", n.Differences)
			d := n.Differences[0]
			require.Equal(t, test.round, d.Round, "%+v", d)
			require.Equal(t, test.where, d.Where, "%+v", d)
			require.True(t, strings.HasPrefix(d.What, test.what), "%+v", d)
			require.NotEqual(t, d.Expected, d.Found)
			require.Equal(t, "node_1", d.Node)
		})
	}
}

// roundedEngine imitates a device that occasionally generates other completions.
type roundedEngine struct{ Engine }

func (e roundedEngine) Generate(ctx context.Context, p policy.GenerateParams) (policy.GenerateResult, error) {
	result, err := e.Engine.Generate(ctx, p)
	if err == nil {
		result.Completions[5][0] ^= 1
	}
	return result, err
}

// Different completions are a difference on an exact device, and a note on others.
func TestGeneratedOtherwise(t *testing.T) {
	f := train(t)
	for _, exact := range []bool{true, false} {
		report := f.verify(t, func(o *Options) {
			start := o.Start
			o.Exact, o.Inexact, o.Generate = exact, "here sums come out otherwise", true
			o.Start = func(ctx context.Context, node string) (Engine, int, error) {
				engine, length, err := start(ctx, node)
				return roundedEngine{engine}, length, err
			}
		})
		require.Equal(t, !exact, report.Verified)
		for _, n := range report.Nodes {
			if exact {
				require.Len(t, n.Differences, 1)
				require.Equal(t, "token 0 of completion 5", n.Differences[0].What)
				continue
			}
			require.Equal(t, rounds, n.Rounds)
			require.Equal(t, []string{
				"completions generated again differ in 3 of 3 rounds: here sums come out otherwise",
			}, n.Notes)
		}
	}
}

// stopping is a tokenizer with a stop token.
type stopping struct {
	tokenizer.Tokenizer
	stop int
}

func (s stopping) Stops() []int { return []int{s.stop} }

// A run of a version that sampled on after a stop token generates the same completions again.
func TestGeneratedWithoutStopTokens(t *testing.T) {
	f := train(t)
	var ids []int
	for logged, err := range journal.Rounds(filepath.Join(f.dir, "node_0"), 0) {
		require.NoError(t, err)
		for _, completion := range logged.Generated.Completions {
			ids = append(ids, completion[:len(completion)/2]...)
		}
	}
	require.NotEmpty(t, ids)
	require.True(t, f.verify(t, func(o *Options) {
		o.Generate, o.Tokens = true, stopping{o.Tokens, ids[len(ids)/2]}
	}).Verified)
}

// A journal that can't be read is damage, and the report tells up to which round the check succeeded. So do the reports
// of the peers that need it.
func TestDamageIsNamed(t *testing.T) {
	segments := func(t *testing.T, f *finished) []string {
		paths, err := filepath.Glob(filepath.Join(f.dir, "node_0", "journal-*.log"))
		require.NoError(t, err)
		require.Len(t, paths, 3)
		return paths
	}
	for name, test := range map[string]struct {
		spoil  func(*testing.T, *finished)
		rounds int
	}{
		"flipped bit": {func(t *testing.T, f *finished) {
			path := segments(t, f)[1]
			data, err := os.ReadFile(path)
			require.NoError(t, err)
			data[len(data)/4] ^= 1
			require.NoError(t, os.WriteFile(path, data, 0o644))
		}, 1},
		"missing segment": {func(t *testing.T, f *finished) { require.NoError(t, os.Remove(segments(t, f)[0])) }, 0},
		"missing folder":  {func(t *testing.T, f *finished) { require.NoError(t, os.RemoveAll(filepath.Join(f.dir, "node_0"))) }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			f := train(t)
			test.spoil(t, f)
			report := f.verify(t, nil)
			require.False(t, report.Verified)
			require.NotEmpty(t, report.Nodes[0].Damage)
			require.Contains(t, report.Nodes[0].Damage, "journal")
			require.Equal(t, test.rounds, report.Nodes[0].Rounds)
			require.Contains(t, report.Nodes[1].Damage, fmt.Sprintf("what node_0 shared in round %d", test.rounds))
			require.Empty(t, report.Nodes[0].Differences)
		})
	}
}

// A failure of the verification itself is an error, not a verdict.
func TestEngineTroubleIsNoVerdict(t *testing.T) {
	f := train(t)
	options := f.options(t)
	options.Start = func(context.Context, string) (Engine, int, error) { return nil, 0, policy.ErrEngineGone }
	_, err := Run(t.Context(), options)
	require.ErrorIs(t, err, policy.ErrEngineGone)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = Run(ctx, f.options(t))
	require.ErrorIs(t, err, context.Canceled)
}

// A checkpoint file on disk that is not the one of its manifest is damage, although its recorded weights are equal.
func TestCheckpointFilesAreRead(t *testing.T) {
	f := train(t)
	dir := filepath.Join(f.dir, "node_0")
	file := filepath.Join(dir, "checkpoint-00000003.safetensors")
	manifest := fmt.Sprintf(`{"round":3,"file":"checkpoint-00000003.safetensors","sha256":"%x"}`, sha256.Sum256([]byte("weights")))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "checkpoint-00000003.json"), []byte(manifest), 0o644))
	for _, step := range []struct {
		spoil  func() error
		damage string
	}{
		{func() error { return os.WriteFile(file, []byte("weights"), 0o644) }, ""},
		{func() error { return os.Truncate(file, 3) }, "checkpoint checkpoint-00000003.safetensors: its sha256 differs"},
		{func() error { return os.Remove(file) }, "no such file"},
		{func() error { return os.Truncate(filepath.Join(dir, "checkpoint-00000003.json"), 9) }, "checkpoint-00000003.json: its manifest is not JSON"},
	} {
		require.NoError(t, step.spoil())
		report := f.verify(t, nil)
		require.Equal(t, step.damage == "", report.Verified)
		require.Contains(t, report.Nodes[0].Damage, step.damage)
		require.Equal(t, 2, report.Nodes[0].EqualHashes)
		require.Empty(t, report.Nodes[1].Damage)
	}
}
