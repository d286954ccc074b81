package figures

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// study is the content of a test database.
type study struct {
	experiments          map[string]float64 // growth of rewards by experiment
	order                []string
	seeds, nodes, rounds int
	evalEvery, questions int // questions per task
	tasks                []string
	externals            map[string]int // J
	adaptive             string         // experiment whose split is not fixed
}

func paper(seeds, nodes, rounds int) study {
	return study{
		experiments: map[string]float64{"paper-8loc0ext": 0.1, "paper-6loc2ext": 0.18, "paper-4loc4ext": 0.25, "paper-2loc6ext": 0.2},
		order:       []string{"paper-8loc0ext", "paper-6loc2ext", "paper-4loc4ext", "paper-2loc6ext"},
		externals:   map[string]int{"paper-8loc0ext": 0, "paper-6loc2ext": 2, "paper-4loc4ext": 4, "paper-2loc6ext": 6},
		seeds:       seeds, nodes: nodes, rounds: rounds, evalEvery: max(1, rounds/6), questions: 12,
		tasks: []string{"arc_1d", "base_conversion", "basic_arithmetic", "bf", "binary_matrix", "calendar_arithmetic", "decimal_arithmetic",
			"fraction_simplification", "propositional_logic"},
	}
}

// write records the study in a database, and returns its path.
func (s study) write(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "swarm.db")
	db, err := store.Open(t.Context(), path, store.Options{Queue: 1 << 16})
	require.NoError(t, err)
	started := 1e9
	for seed := range s.seeds {
		for _, experiment := range s.order {
			s.run(t, db, experiment, 42+seed, started)
			started += 1e5
		}
	}
	require.NoError(t, db.Close())
	return path
}

func (s study) run(t testing.TB, db *store.Store, experiment string, seed int, started float64) {
	r := rand.New(rand.NewPCG(uint64(seed), uint64(len(experiment))+uint64(s.externals[experiment])))
	j := s.externals[experiment]
	run := store.Run{Run: fmt.Sprintf("%s-%d", experiment, seed), Experiment: experiment, Model: "nano", Device: "cpu", Seed: int64(seed), Rounds: s.rounds,
		NumTrainSamples: 8 - j, NumTransplantTrees: j, NumGenerations: 8, Config: json.RawMessage(`{"model": "nano"}`), Started: started}
	for n := range s.nodes {
		run.NodeIDs = append(run.NodeIDs, fmt.Sprint("node_", n))
	}
	require.NoError(t, db.StartRun(t.Context(), run))
	record := func(e event.Event) {
		e.Run = run.Run
		require.NoError(t, db.Record(t.Context(), e))
	}
	for round := range s.rounds {
		done := float64(round) / float64(s.rounds)
		for n, node := range run.NodeIDs {
			at := started + 3*float64(round) + r.Float64()
			mean := 0.05 + s.experiments[experiment]*(1-math.Exp(-3*done)) + 0.01*float64(n%3)
			reward := math.Round(64*max(0, mean+0.06*r.NormFloat64())) / 64
			x := &event.Round{Round: round, Reward: reward, RewardStd: r.Float64() / 3, TrainingReward: math.Round(640*reward) / 640, FracRewardZeroStd: 0.25,
				FormatRate: 0.5, MeanLength: 14 + math.Round(r.Float64()*64)/64, Completions: 64, Loss: r.NormFloat64() / 10, GradNorm: r.Float64(),
				Entropy: r.Float64(), Steps: 1, TrainedOwn: 8 - j, TrainedExternal: j, StepTime: 1 + r.Float64(), GenerateTime: r.Float64(),
				UpdateTime: r.Float64(), ScoreTime: r.Float64() / 100, LeaseTime: r.Float64(), BarrierTime: r.Float64(), JournalTime: r.Float64() / 100}
			if experiment == s.adaptive {
				x.SplitExternal = round % 7
				x.SplitOwn = 8 - x.SplitExternal
			}
			for _, task := range s.tasks[:min(5, len(s.tasks))] {
				x.Tasks = append(x.Tasks, event.TaskReward{Task: task, Completions: 8, RewardSum: math.Round(800*reward) / 100})
			}
			record(event.Event{Type: event.TypeRound, Node: node, Time: at, Round: x})
			if (round+1)%s.evalEvery == 0 {
				record(event.Event{Type: event.TypeEval, Node: node, Time: at + 0.5, Eval: s.eval(r, round+1, mean)})
			}
		}
	}
	record(event.Event{Type: event.TypeRunEnded, Time: started + 3*float64(s.rounds) + 2, State: store.RunDone})
}

// eval returns an evaluation in which a completion is right with a given chance, scaled by task.
func (s study) eval(r *rand.Rand, round int, chance float64) *event.Eval {
	x := &event.Eval{Round: round, Set: "held-out", Generations: 4, Temperature: 1, FormatRate: 0.5, MeanLength: 14, Seconds: 1}
	for k, task := range s.tasks {
		for range s.questions {
			correct := 0
			for range x.Generations {
				if r.Float64() < chance*float64(k+1)/5 {
					correct++
				}
			}
			x.Questions = append(x.Questions, event.EvalQuestion{Task: task, Correct: correct, RewardSum: float64(correct)})
		}
	}
	return x
}

func open(t testing.TB, path string) *store.Reader {
	t.Helper()
	reader, err := store.OpenFile(t.Context(), path)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, reader.Close()) })
	return reader
}
