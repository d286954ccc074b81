package stats

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// Axis is an x axis of curves, a row of the table of axes. All surfaces take names, labels and units from that table.
type Axis struct {
	Name  string `json:"name"`  // value of --per and of the dashboard's API
	Label string `json:"label"` // of the axis
	Unit  string `json:"unit"`  // of its values, as the charts name it: number or seconds

	SideBySide bool `json:"-"` // its values are comparable only between runs made in parallel on one machine

	metrics []string // metrics of rounds from which its values are computed
	places  func(c Curve, s RunSeries) Values
}

// PerRounds is the default axis.
const PerRounds = "rounds"

// perMoney is the only axis with a currency.
const perMoney = "money"

var axes = []Axis{
	{PerRounds, "round", "number", false, nil, roundPlaces},
	{"completions", "completions generated", "number", false, []string{"completions"}, completionPlaces},
	{"tokens", "tokens generated", "number", false, []string{"completions", "completions_mean_length"}, tokenPlaces},
	{"engine-seconds", "time in engines", "seconds", true, []string{"generate_time", "update_time"}, enginePlaces},
	{"seconds", "time at work", "seconds", true, nil, secondPlaces},
	{perMoney, "cost", "number", false, nil, moneyPlaces},
}

// Axes returns the table of axes, rounds first.
func Axes() []Axis { return slices.Clone(axes) }

// AxisNames returns the names of the axes in the table's order.
func AxisNames() []string {
	var names []string
	for _, a := range axes {
		names = append(names, a.Name)
	}
	return names
}

// AxisOf returns the axis with a name; an empty name means rounds. The error lists the valid names.
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

// Metrics returns the metrics that RunSeries.More must contain for this axis.
func (a Axis) Metrics() []string { return slices.Clone(a.metrics) }

// AxisMetrics returns the metrics of all axes, each once.
func AxisMetrics() []string {
	var names []string
	for _, a := range axes {
		for _, name := range a.metrics {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}

// IsMoney reports whether the axis' values have a currency.
func (a Axis) IsMoney() bool { return a.Name == perMoney }

// In returns the label, followed by the currency if the axis is money.
func (a Axis) In(currency string) string {
	if !a.IsMoney() || currency == "" {
		return a.Label
	}
	return a.Label + ", " + currency
}

// RunSeries is the data of one run from which its curves are computed.
type RunSeries struct {
	Run      store.Run
	Attempts []store.Attempt
	Values   []store.RoundValue            // of the metric
	More     map[string][]store.RoundValue // of Axis.Metrics
	Evals    []store.EvalTime              // by round
}

// roundPlaces returns the rounds themselves, from 0.
func roundPlaces(c Curve, _ RunSeries) Values {
	out := make(Values, len(c.Round))
	for i, round := range c.Round {
		out[i] = float64(round)
	}
	return out
}

// completionPlaces returns the cumulative number of completions that nodes generated themselves.
func completionPlaces(c Curve, s RunSeries) Values {
	return sumPlaces(c, s.More["completions"])
}

// tokenPlaces returns the cumulative number of tokens of these completions: completions times their mean length. They
// are unknown if a node's round has no mean length.
func tokenPlaces(c Curve, s RunSeries) Values {
	type nodeRound struct {
		node  string
		round int
	}
	lengths := map[nodeRound]float64{}
	for _, v := range s.More["completions_mean_length"] {
		lengths[nodeRound{v.Node, v.Round}] = v.Value
	}
	tokens := slices.Clone(s.More["completions"])
	for i, v := range tokens {
		length, ok := lengths[nodeRound{v.Node, v.Round}]
		if v.Value > 0 && (!ok || !units.Finite(length)) {
			return unknown(len(c.Round))
		}
		tokens[i].Value *= length
	}
	return sumPlaces(c, tokens)
}

// enginePlaces returns the cumulative seconds in the engines' generate and update calls, without waits, verifiers and
// held-out evaluations.
func enginePlaces(c Curve, s RunSeries) Values {
	return sumPlaces(c, s.More["generate_time"], s.More["update_time"])
}

// sumPlaces returns cumulative sums of several lists of values over nodes and rounds. A sum of 0 is unknown.
func sumPlaces(c Curve, lists ...[]store.RoundValue) Values {
	sums := map[int]float64{}
	for _, values := range lists {
		for _, v := range values {
			if v.Value > 0 { // never of NaN
				sums[v.Round] += v.Value
			}
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

// secondPlaces returns the active seconds of the run, without pauses and evaluations, until its last node ended each
// round.
func secondPlaces(c Curve, s RunSeries) Values {
	active := func(t float64) float64 {
		if len(s.Attempts) > 0 {
			return Elapsed(s.Attempts, s.Run.Started+t)
		}
		return t
	}
	out := slices.Clone(c.Time)
	latest, evaluating := 0.0, 0.0
	evals := s.Evals
	for i, t := range c.Time {
		for ; len(evals) > 0 && evals[0].Round <= c.Round[i]; evals = evals[1:] {
			from := evals[0].From - s.Run.Started
			if i > 0 { // from the end of the round before it
				from = c.Time[i-1]
			} else if evals[0].From == 0 {
				continue
			}
			evaluating += max(0, active(evals[0].To-s.Run.Started)-active(from))
		}
		latest = max(latest, active(t)-evaluating) // a repeated round can end after the round that follows it
		out[i] = latest
	}
	return out
}

// moneyPlaces returns the results of secondPlaces times the run's price; unknown without a price.
func moneyPlaces(c Curve, s RunSeries) Values {
	out := secondPlaces(c, s)
	for i, t := range out {
		out[i] = math.NaN()
		if amount := Cost(t, s.Run.PricePerHour); amount != nil {
			out[i] = *amount
		}
	}
	return out
}
