package stats

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/sapo-swarm/swarm/metrics/store"
)

// Axis is what a curve is drawn against: a row of the one table of them. Every surface takes names, labels and units
// from there.
type Axis struct {
	Name  string `json:"name"`  // as --per and the dashboard's API have it
	Label string `json:"label"` // of the axis
	Unit  string `json:"unit"`  // of its values, as charts know it: number or seconds

	metrics []string // of rounds that its values are made of
	places  func(c Curve, s RunSeries) Values
}

// PerRounds is the axis that is used where none is named.
const PerRounds = "rounds"

var axes = []Axis{
	{PerRounds, "round", "number", nil, roundPlaces},
	{"completions", "completions generated", "number", []string{"completions"}, completionPlaces},
	{"tokens", "tokens generated", "number", []string{"completions", "completions_mean_length"}, tokenPlaces},
	{"seconds", "time at work", "seconds", nil, secondPlaces},
	{"money", "cost", "number", nil, moneyPlaces},
}

// Axes returns the table, rounds first.
func Axes() []Axis { return slices.Clone(axes) }

// AxisNames returns the names in the table's order.
func AxisNames() []string {
	var names []string
	for _, a := range axes {
		names = append(names, a.Name)
	}
	return names
}

// AxisOf returns the axis of a name, rounds for none. The error names those that there are.
func AxisOf(name string) (Axis, error) {
	if name == "" {
		name = PerRounds
	}
	for _, a := range axes {
		if a.Name == name {
			return a, nil
		}
	}
	return Axis{}, fmt.Errorf("unknown axis %q, known are: %s", name, strings.Join(AxisNames(), ", "))
}

// Metrics are those that a RunSeries has to have in More for this axis.
func (a Axis) Metrics() []string { return slices.Clone(a.metrics) }

// In is the label with a currency behind it where the axis is of money.
func (a Axis) In(currency string) string {
	if a.Name != "money" || currency == "" {
		return a.Label
	}
	return a.Label + ", " + currency
}

// RunSeries is what the curves of one run are made of.
type RunSeries struct {
	Run      store.Run
	Attempts []store.Attempt
	Values   []store.RoundValue            // of the metric
	More     map[string][]store.RoundValue // of Axis.Metrics
}

// roundPlaces are the rounds themselves, the first being 0.
func roundPlaces(c Curve, _ RunSeries) Values {
	out := make(Values, len(c.Round))
	for i, round := range c.Round {
		out[i] = float64(round)
	}
	return out
}

// completionPlaces are sums over nodes and rounds of the completions that nodes generated themselves.
func completionPlaces(c Curve, s RunSeries) Values {
	return sumPlaces(c, s, func(nodeRound) float64 { return 1 })
}

// tokenPlaces are sums of their tokens: completions times their mean length.
func tokenPlaces(c Curve, s RunSeries) Values {
	lengths := map[nodeRound]float64{}
	for _, v := range s.More["completions_mean_length"] {
		lengths[nodeRound{v.Node, v.Round}] = v.Value
	}
	return sumPlaces(c, s, func(at nodeRound) float64 { return lengths[at] })
}

type nodeRound struct {
	node  string
	round int
}

// sumPlaces are sums over nodes and rounds of completions, each weighed; unknown where they add up to nothing.
func sumPlaces(c Curve, s RunSeries, weight func(nodeRound) float64) Values {
	sums := map[int]float64{}
	for _, v := range s.More["completions"] {
		if more := v.Value * weight(nodeRound{v.Node, v.Round}); more > 0 {
			sums[v.Round] += more
		}
	}
	out := make(Values, len(c.Round))
	sum := 0.0
	for i, round := range c.Round {
		sum += sums[round]
		out[i] = sum
	}
	if sum == 0 {
		return unknown(len(c.Round))
	}
	return out
}

// secondPlaces are the seconds for which coordinators had worked on the run when its last node ended the round: pauses
// don't count.
func secondPlaces(c Curve, s RunSeries) Values {
	out := slices.Clone(c.Time)
	latest := 0.0
	for i, t := range c.Time {
		if len(s.Attempts) > 0 {
			t = Elapsed(s.Attempts, s.Run.Started+t)
		}
		latest = max(latest, t) // a round that was done again ended after the one behind it
		out[i] = latest
	}
	return out
}

// moneyPlaces are those of secondPlaces times the run's price; unknown without a price.
func moneyPlaces(c Curve, s RunSeries) Values {
	out := secondPlaces(c, s)
	for i, t := range out {
		out[i] = math.NaN()
		if amount := cost(t, s.Run.PricePerHour); amount != nil {
			out[i] = *amount
		}
	}
	return out
}
