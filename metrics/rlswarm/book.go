package rlswarm

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// book collects the records of each node's rounds.
type book struct {
	report     *Report
	nodes      map[string]map[int]*entry
	registered map[string]bool // workers with a file in peers/
}

// entry is one round of a node.
type entry struct {
	records int // records of its reward, including duplicates
	said    map[source]record
}

// source is a kind of record. For records of a single stage it includes the stage.
type source struct {
	kind  string
	stage int
}

func newBook(report *Report) *book {
	return &book{report: report, nodes: map[string]map[int]*entry{}, registered: map[string]bool{}}
}

// add adds a record. Of several records of one kind the newest counts, because a restarted node repeats rounds.
func (b *book) add(x record) error {
	b.report.Records[x.kind]++
	if x.kind == kindOther {
		return nil
	}
	rounds := b.nodes[x.node]
	if rounds == nil {
		if len(b.nodes) >= maxNodes {
			return fmt.Errorf("there are more than %d nodes", maxNodes)
		}
		rounds = map[int]*entry{}
		b.nodes[x.node] = rounds
	}
	e := rounds[x.round]
	if e == nil {
		e = &entry{said: map[source]record{}}
		rounds[x.round] = e
	}
	key := source{x.kind, x.stage}
	if x.kind == kindMetrics || x.kind == kindCumulative || x.kind == kindAdaptive {
		key.stage = 0 // covers the whole round, whatever stage the row has
	}
	if x.kind != kindAdaptive && x.kind != kindCumulative {
		e.records++
	}
	former, known := e.said[key]
	switch {
	case !known || x.kind == kindCumulative || x.kind == kindAdaptive: // rl-swarm writes cumulative rewards to two files
	case same(former.value, x.value) && former.samples == x.samples:
		b.report.Doubled++
	default:
		b.report.Replaced++
	}
	if !known || x.time >= former.time {
		e.said[key] = x
	}
	return nil
}

func same(a, b float64) bool { return a == b || math.IsNaN(a) && math.IsNaN(b) }

// workers returns the nodes that registered to train.
func (b *book) workers() []string { return slices.Sorted(maps.Keys(b.registered)) }

// rounds returns every node's rounds, by round and node.
func (b *book) rounds(s *settings) []store.ImportedRound {
	var out []store.ImportedRound
	for _, node := range slices.Sorted(maps.Keys(b.nodes)) {
		entries := b.nodes[node]
		grew := growth(entries)
		transplants, adaptive := s.transplants, false
		for _, round := range slices.Sorted(maps.Keys(entries)) {
			e := entries[round]
			if j, ok := e.said[source{kind: kindAdaptive}]; ok {
				transplants, adaptive = int(j.value), true // remains valid until it changes
			}
			sum, ok := e.sum(b.report)
			if !ok {
				if sum, ok = grew[round]; !ok {
					continue // its reward is unknown
				}
				b.report.FromSums++
				e.records++
			}
			x := b.round(s, sum, e, transplants)
			if adaptive { // rl-swarm's code changes only J, whatever I it logs
				x.SplitOwn, x.SplitExternal = s.trainSamples, transplants
			}
			out = append(out, x)
		}
	}
	slices.SortFunc(out, func(a, b store.ImportedRound) int {
		return cmp.Or(cmp.Compare(a.Round.Round, b.Round.Round), cmp.Compare(a.Node, b.Node))
	})
	b.date(out, s)
	return out
}

// sum returns the round's reward summed over all completions, from the most trusted kind of record.
func (e *entry) sum(report *Report) (record, bool) {
	var found []record
	for _, kind := range []string{kindMetrics, kindStages, kindRewards} {
		total := record{kind: kind, value: 0}
		ok := false
		for _, key := range slices.SortedFunc(maps.Keys(e.said), func(a, b source) int { return cmp.Compare(a.stage, b.stage) }) {
			x := e.said[key]
			if key.kind != kind {
				continue
			}
			ok = true
			total.node, total.round, total.time = x.node, x.round, max(total.time, x.time)
			total.value += x.value
			total.stage++ // number of stages
		}
		if ok {
			found = append(found, total)
		}
	}
	if len(found) == 0 {
		return record{}, false
	}
	if last := found[len(found)-1]; last.kind == kindRewards && len(found) > 1 && !near(last.value, found[0].value) {
		report.Disagreements++
	}
	for _, x := range found {
		if found[0].time == 0 {
			found[0].time = x.time
		}
	}
	return found[0], true
}

func near(a, b float64) bool {
	return same(a, b) || math.Abs(a-b) <= 1e-9*max(1, math.Abs(a), math.Abs(b))
}

// growth returns the growth of a node's cumulative reward in each round that has one. rl-swarm restarts the cumulative
// reward at 0 when a node restarts. A value below the previous one is therefore the first of a new process.
func growth(entries map[int]*entry) map[int]record {
	out := map[int]record{}
	before := 0.0
	for _, round := range slices.Sorted(maps.Keys(entries)) {
		x, ok := entries[round].said[source{kind: kindCumulative}]
		if !ok {
			continue
		}
		total := x.value
		if x.value -= before; x.value < 0 {
			x.value = total
		}
		before = total
		x.stage = 1
		out[round] = x
	}
	return out
}

// round converts a sum of rewards to a round.
func (b *book) round(s *settings, sum record, e *entry, transplants int) store.ImportedRound {
	completions := 0
	for key, x := range e.said {
		if key.kind == kindStages {
			completions += x.samples
		}
	}
	if completions == 0 {
		stages := 1
		if sum.kind != kindMetrics {
			stages = max(1, sum.stage)
		}
		completions = s.trainSamples * s.generations * stages
	}
	r := event.Round{
		Round: sum.round, Reward: sum.value / float64(completions), Completions: completions,
		TrainedOwn: s.trainSamples, TrainedExternal: transplants, NonFinite: unrecorded(),
	}
	if !units.Finite(r.Reward) {
		b.report.NotNumbers++
	}
	return store.ImportedRound{Node: sum.node, Time: sum.time, Round: r, RewardSum: sum.value, Records: e.records, Source: sum.kind}
}

// unrecorded lists the figures that rl-swarm does not record, which are therefore unknown rather than 0.
func unrecorded() map[string]string {
	out := map[string]string{}
	for _, m := range event.Metrics() {
		if m.Real() && !m.Optional && m.Name != "reward" && m.Unit != event.UnitRounds {
			out[m.Name] = "unrecorded"
		}
	}
	return out
}

// date sets the time of rounds without one to that of the previous round, or to the start of the run.
func (b *book) date(rounds []store.ImportedRound, s *settings) {
	last := map[string]float64{}
	first := 0.0
	for _, r := range rounds {
		if r.Time > 0 && (first == 0 || r.Time < first) {
			first = r.Time
		}
	}
	s.begin(first)
	for i := range rounds {
		r := &rounds[i]
		if r.Time == 0 {
			b.report.Untimed++
			r.Time = max(last[r.Node], s.started)
		}
		last[r.Node] = max(last[r.Node], r.Time)
		s.end(r.Time)
	}
}
