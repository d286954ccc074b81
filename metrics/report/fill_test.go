package report_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/report"
	"github.com/sapo-swarm/swarm/metrics/store"
)

const started = 1_760_000_000.0 // Unix seconds, for every run

// synthetic is a run with numbers generated from its seed. It is only for synthetic databases and never a result.
type synthetic struct {
	experiment    string
	own, external int
	seed          int64
	nodes, rounds int
	gain          float64 // final reward
	gpu           bool
	unfinished    bool
	nodeName      string // prefix; default node_
	message       string // of its warnings
	config        string // additional members of its configuration
	adaptive      bool   // the split moves from I to J over the rounds
}

// database creates a database with runs and opens it for reading.
func database(t testing.TB, runs ...synthetic) *store.Reader {
	t.Helper()
	path := filepath.Join(t.TempDir(), "swarm.db")
	s, err := store.Open(context.Background(), path, store.Options{})
	require.NoError(t, err)
	for _, run := range runs {
		run.record(t, s)
	}
	require.NoError(t, s.Close())
	reader, err := store.OpenReader(context.Background(), path)
	require.NoError(t, err)
	t.Cleanup(func() { reader.Close() })
	return reader
}

func options() report.Options {
	return report.Options{Now: started + 100_000, Alive: func(store.Snapshot, float64) bool { return true }, Version: "test"}
}

func (x synthetic) record(t testing.TB, s *store.Store) {
	t.Helper()
	if x.nodeName == "" {
		x.nodeName = "node_"
	}
	random := rand.New(rand.NewPCG(uint64(x.seed), uint64(x.own)))
	key := fmt.Sprintf("%s-%d", x.experiment, x.seed)
	names := make([]string, x.nodes)
	for i := range names {
		names[i] = fmt.Sprint(x.nodeName, i)
	}
	name, err := json.Marshal(x.experiment)
	require.NoError(t, err)
	config := fmt.Sprintf(`{"experiment":%s,"seed":%d,"num_train_samples":%d,"num_transplant_trees":%d,"learning_rate":0.0003,
		"tasks":{"set":"paper","mixture":[{"name":"bf","weight":1,"params":{"difficulty":1}}]}%s}`, name, x.seed, x.own, x.external, x.config)
	device := map[bool]string{true: "cuda:0", false: "cpu"}[x.gpu]
	require.NoError(t, s.StartRun(context.Background(), store.Run{
		Run: key, Experiment: x.experiment, Model: "nano", Device: device, Seed: x.seed, Rounds: x.rounds, NodeIDs: names, NumTrainSamples: x.own,
		NumTransplantTrees: x.external, NumGenerations: 8, Config: []byte(config), PricePerHour: 1.29, PriceCurrency: "$", Started: started,
	}))
	tell := func(e event.Event) {
		e.Run = key
		require.NoError(t, s.Record(context.Background(), e))
	}
	tell(event.Event{Type: event.TypeRunStarted, Time: started})
	for round := range x.rounds {
		for i, node := range names {
			tell(event.Event{Type: event.TypeRound, Node: node, Time: started + 20*float64(round+1) + float64(i), Round: x.round(random, round, i, names)})
		}
		if round%10 == 0 {
			x.machine(tell, names, round)
		}
	}
	x.troubles(tell, names)
	x.evaluate(random, tell, names)
	if !x.unfinished {
		tell(event.Event{Type: event.TypeRunEnded, Time: started + 20*float64(x.rounds+1), State: event.StateDone})
	}
}

// round generates a round. Rewards rise with noise, as in a real run.
func (x synthetic) round(random *rand.Rand, round, node int, names []string) *event.Round {
	share := 1 - math.Exp(-3*float64(round)/float64(x.rounds))
	reward := max(0, x.gain*share+0.06*random.NormFloat64()+0.01*float64(node%3))
	r := &event.Round{
		Round: round, Reward: reward, TrainingReward: 2 * reward, Completions: 8 * x.own, MeanLength: 40 + 5*random.NormFloat64(), Steps: 1,
		TrainedOwn: x.own, TrainedExternal: x.external, StepTime: 20, GenerateTime: 9 + random.Float64(), UpdateTime: 5, ScoreTime: 0.1,
		LeaseTime: 2 + 2*random.Float64(), BarrierTime: 2, JournalTime: 0.02,
		Tasks: []event.TaskReward{{Task: "bf", Completions: 4 * x.own, RewardSum: 4 * reward}, {Task: "arc_1d", Completions: 4 * x.own, RewardSum: 3 * reward}},
	}
	if x.adaptive {
		r.SplitExternal = round * x.external / x.rounds
		r.SplitOwn = x.own + x.external - r.SplitExternal
	}
	if x.external > 0 && round%50 == 3 {
		r.TrainedExternal = x.external - 1
	}
	for _, peer := range names {
		if peer != names[node] && x.external > 0 {
			r.Peers = append(r.Peers, event.Peer{Node: peer, Available: x.own, Filtered: 1, Used: random.IntN(2)})
		}
	}
	return r
}

// machine records samples of memory and of the GPU.
func (x synthetic) machine(tell func(event.Event), names []string, round int) {
	at := started + 20*float64(round)
	used := int64(0)
	for i, node := range names {
		m := &event.Memory{RSSBytes: 900e6, PeakRSSBytes: 950e6, PSSBytes: 300e6, PeakPSSBytes: 350e6, ResidentBytes: 2e9, GenerateBytes: 4e9, UpdateBytes: 5e9, MicroBatch: 16}
		if x.gpu {
			m.DeviceBytes = int64(6e9 + 1e9*math.Sin(float64(round)/40+float64(i)))
			m.DevicePeakBytes, m.BudgetBytes = 7_500_000_000, 9_000_000_000
		}
		used += m.DeviceBytes
		tell(event.Event{Type: event.TypeMemory, Node: node, Time: at, Memory: m})
	}
	if x.gpu {
		tell(event.Event{Type: event.TypeDevice, Time: at, Device: &event.Device{UUID: "GPU-1", Name: "NVIDIA A100", MemoryTotalBytes: 80e9,
			MemoryUsedBytes: used + 4e9, UnattributedBytes: 1e9, Utilization: 0.9, PowerWatts: 300, PowerLimitWatts: 400, TemperatureCelsius: 60}})
	}
}

func (x synthetic) troubles(tell func(event.Event), names []string) {
	middle := started + 10*float64(x.rounds)
	code := 1
	tell(event.Event{Type: event.TypeMemoryStep, Node: names[0], Time: middle, Cause: event.CauseOutOfMemory, MemoryStep: &event.MemoryStep{
		Round: x.rounds / 2, Phase: "update", Cause: event.MemoryGPU, Action: event.ActionHalveMicroBatch, MicroBatch: 8, RequestedBytes: 3e9,
		UsedBytes: 7e9, FreeBytes: 5e8, TotalBytes: 80e9}})
	tell(event.Event{Type: event.TypeExit, Node: names[0], Time: middle + 60, Cause: event.CauseOutOfMemory, ExitCode: &code, Message: x.message})
	tell(event.Event{Type: event.TypeRestart, Node: names[0], Time: middle + 61, Seconds: 2, Message: x.message})
	tell(event.Event{Type: event.TypeWarning, Node: names[len(names)-1], Time: middle + 400, Message: "a warning " + x.message})
}

func (x synthetic) evaluate(random *rand.Rand, tell func(event.Event), names []string) {
	for part := range 5 {
		round := x.rounds * part / 4
		for _, node := range names {
			e := &event.Eval{Round: round, Set: "paper-64", Generations: 8, Temperature: 1, FormatRate: 0.9, MeanLength: 40, Seconds: 10}
			for q := range 16 {
				correct := min(8, max(0, int(8*x.gain*float64(part)/4+random.Float64()*2)))
				e.Questions = append(e.Questions, event.EvalQuestion{Task: []string{"bf", "arc_1d"}[q%2], Correct: correct, RewardSum: float64(correct)})
			}
			tell(event.Event{Type: event.TypeEval, Node: node, Time: started + 20*float64(round), Eval: e})
		}
	}
}

// paperRuns are the paper's four configurations.
func paperRuns(nodes, rounds int, seeds ...int64) []synthetic {
	var runs []synthetic
	for _, seed := range seeds {
		for _, x := range []synthetic{
			{experiment: "8loc0ext", own: 8, gain: 0.3}, {experiment: "6loc2ext", own: 6, external: 2, gain: 0.42},
			{experiment: "4loc4ext", own: 4, external: 4, gain: 0.55}, {experiment: "2loc6ext", own: 2, external: 6, gain: 0.47},
		} {
			x.seed, x.nodes, x.rounds, x.gpu = seed, nodes, rounds, true
			runs = append(runs, x)
		}
	}
	return runs
}
