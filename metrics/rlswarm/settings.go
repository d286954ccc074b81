package rlswarm

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/sapo-swarm/swarm/metrics/store"
)

// Defaults of rl-swarm.
const (
	defaultTrainSamples = 8
	defaultTransplants  = 0
	defaultGenerations  = 8
	defaultSeed         = 42
)

// settings holds the configuration of a run, as far as its folder contains it. If several files contain a setting, the
// first one read counts.
type settings struct {
	report     *Report
	experiment string

	trainSamples, transplants, generations, planned int
	seed                                            int64
	model                                           string

	told   map[string]int64  // by name
	from   map[string]string // file that contained it
	folder string            // base name of the folder

	started, ended float64 // Unix seconds; 0: unknown yet
}

// Names of settings, as in configs.
const (
	setTrainSamples = "num_train_samples"
	setTransplants  = "num_transplant_trees"
	setGenerations  = "num_generations"
	setRounds       = "max_rounds"
	setSeed         = "seed"
)

func newSettings(o Options, folder string, report *Report) *settings {
	s := &settings{report: report, experiment: o.Name, model: o.Model, told: map[string]int64{}, from: map[string]string{}, folder: folder}
	const asked = "the command line"
	s.tell(setTrainSamples, int64(o.NumTrainSamples), asked)
	s.tell(setGenerations, int64(o.NumGenerations), asked)
	s.tell(setRounds, int64(o.Rounds), asked)
	if o.NumTransplantTrees != nil {
		s.tell(setTransplants, int64(*o.NumTransplantTrees), asked)
	}
	if o.Seed != nil {
		s.tell(setSeed, *o.Seed, asked)
	}
	return s
}

// tell adopts a setting unless it is out of range or already set. It reports contradictions.
func (s *settings) tell(name string, value int64, where string) {
	low, high := int64(1), int64(1_000_000)
	switch name {
	case setTransplants:
		low = 0
	case setRounds:
		high = maxRound
	case setSeed:
		low, high = -1<<63, 1<<63-1
	}
	if value < low || value > high {
		return
	}
	if former, ok := s.told[name]; !ok {
		s.told[name], s.from[name] = value, where
	} else if former != value {
		s.report.assume("%s is %d in %s but %d in %s: the former is used", name, former, s.from[name], value, where)
	}
}

func (s *settings) begin(at float64) {
	if at > 0 && (s.started == 0 || at < s.started) {
		s.started = at
	}
}

func (s *settings) end(at float64) { s.ended = max(s.ended, at) }

// named matches names of experiments in guides and notebooks.
var named = regexp.MustCompile(`([0-9]{1,3})loc([0-9]{1,3})ext`)

// conclude fills in settings that no file contained.
func (s *settings) conclude() {
	if m := named.FindStringSubmatch(s.folder); m != nil {
		for i, name := range []string{setTrainSamples, setTransplants} {
			if _, ok := s.told[name]; !ok {
				v, _ := strconv.ParseInt(m[1+i], 10, 64)
				s.tell(name, v, "its name")
			}
		}
	}
	for _, x := range []struct {
		name  string
		value int64
	}{
		{setTrainSamples, defaultTrainSamples}, {setTransplants, defaultTransplants}, {setGenerations, defaultGenerations}, {setSeed, defaultSeed},
	} {
		if _, ok := s.told[x.name]; !ok {
			s.tell(x.name, x.value, "rl-swarm's default")
			s.report.assume("%s %d, rl-swarm's default: not recorded in the folder", x.name, x.value)
		}
	}
	if s.model == "" {
		s.report.assume("no model: not recorded in the folder")
	}
	s.trainSamples, s.transplants, s.generations = int(s.told[setTrainSamples]), int(s.told[setTransplants]), int(s.told[setGenerations])
	s.seed, s.planned = s.told[setSeed], int(s.told[setRounds])
	s.nameExperiment()
}

var unnameable = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

// nameExperiment derives a valid name from the folder's name.
func (s *settings) nameExperiment() {
	if s.experiment != "" {
		return
	}
	name := strings.TrimLeft(unnameable.ReplaceAllString(s.folder, "-"), "._-")
	if s.experiment = name[:min(len(name), 64)]; s.experiment == "" {
		s.experiment = "imported"
	}
	if s.experiment != s.folder {
		s.report.assume("the experiment is named %s, because the folder's name is not a valid one", s.experiment)
	}
}

// run describes the run of the given rounds. workers are the nodes that registered.
func (s *settings) run(rounds []store.ImportedRound, workers []string) store.Run {
	nodes, last := map[string]int{}, 0
	for _, w := range workers {
		nodes[w] = 0
	}
	for _, r := range rounds {
		nodes[r.Node]++
		last = max(last, r.Round.Round+1)
	}
	if s.planned == 0 {
		s.planned = last
		s.report.assume("%d rounds planned, the maximum recorded: the number is not in the folder", last)
	}
	if s.started == 0 {
		s.started = 946_684_801 // year 2000, because a run must have a time
		s.report.assume("no time is recorded: the run gets the year 2000")
		for i := range rounds {
			rounds[i].Time = s.started
		}
	}
	s.ended = max(s.ended, s.started)
	run := store.Run{
		Run: runKey(s.experiment, s.started), Experiment: s.experiment, Preset: Format, Model: s.model, Seed: s.seed, Rounds: s.planned,
		NumTrainSamples: s.trainSamples, NumTransplantTrees: s.transplants, NumGenerations: s.generations,
		NodeIDs: slices.Sorted(maps.Keys(nodes)), Started: s.started, Ended: s.ended,
	}
	run.State, run.Message = outcome(run, nodes, s.folder)
	return run
}

// outcome returns the final state of the run: done if every node finished every round.
func outcome(run store.Run, nodes map[string]int, folder string) (state, message string) {
	fewest, most := run.Rounds, 0
	for _, n := range nodes {
		fewest, most = min(fewest, n), max(most, n)
	}
	message = fmt.Sprintf("imported from %s's folder %q", Format, folder)
	if fewest >= run.Rounds {
		return store.RunDone, message
	}
	if fewest == most {
		return store.RunStopped, fmt.Sprintf("%s: %d of %d rounds", message, most, run.Rounds)
	}
	return store.RunStopped, fmt.Sprintf("%s: %d to %d of %d rounds per node", message, fewest, most, run.Rounds)
}

// document returns the known part of the run's configuration. It is not a configs.Config and has none of its keys.
func (s *settings) document() (json.RawMessage, error) {
	return json.Marshal(map[string]any{"imported": map[string]any{"format": Format, "model": s.model, "settings": s.told, "from": s.from}})
}
