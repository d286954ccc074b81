package study

import (
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/launcher/coordinator"
	"github.com/sapo-swarm/swarm/metrics/stats/alarm"
	"github.com/sapo-swarm/swarm/metrics/stats/rates"
	"github.com/sapo-swarm/swarm/metrics/stats/sweep"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// Pilots make a sweep one of short runs of a configuration at several learning rates, with advice at its end (swarm
// tune).
type Pilots struct {
	Rates      string   // separated by commas
	RatesGiven bool     // else: a third of the configuration's rate, the rate itself, and three times it
	Up         []string // arguments of swarm up that train the same configuration, without its rate

	lines *lines // nil: print text
}

// maxRates bounds the pilots. More rates are a study.
const maxRates = 16

const ratesAllowed = "2 to 16 different numbers above 0 and up to 1, such as 3e-5,1e-4,3e-4"

// rates returns the learning rates of the pilots, in the user's order. own is the configuration's rate.
func (p *Pilots) rates(own float64) ([]float64, error) {
	if !p.RatesGiven {
		if !(own > 0 && own*3 <= 1) {
			return nil, &configs.Error{Key: "learning_rate", Value: configs.FloatName(own), Allowed: "above 0 and up to 0.33, or --rates 3e-5,1e-4,3e-4"}
		}
		return []float64{twoDigits(own / 3), own, twoDigits(own * 3)}, nil
	}
	refuse := &configs.Error{Key: "rates", Value: p.Rates, Allowed: ratesAllowed}
	var list []float64
	for text := range strings.SplitSeq(p.Rates, ",") {
		rate, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
		if err != nil || !(rate > 0 && rate <= 1) || slices.Contains(list, rate) || len(list) == maxRates {
			return nil, refuse
		}
		list = append(list, rate)
	}
	if len(list) < 2 {
		return nil, refuse
	}
	return list, nil
}

// twoDigits rounds to two significant digits, so that a third of a rate has a short name.
func twoDigits(x float64) float64 {
	y, err := strconv.ParseFloat(strconv.FormatFloat(x, 'g', 2, 64), 64)
	if err != nil {
		return x
	}
	return y
}

// pilotPrefix begins the names of pilots' experiments, such as tune-4loc4ext-lr3.3e-5.
const pilotPrefix = "tune-"

// rateSources returns the pilots of a configuration: a preset or a file.
func (o *Options) rateSources(ctx context.Context, h Host, name string) ([]Source, error) {
	given, err := o.Plan.Config.Layer()
	if err != nil {
		return nil, err
	}
	for _, key := range []struct{ name, allowed string }{
		{"learning_rate", "none: --rates sets it"}, {"experiment", "none: pilots are named after their rates"},
	} {
		if value, twice := given.Values[key.name]; twice {
			return nil, &configs.Error{Key: key.name, Value: fmt.Sprint(value), Source: given.Sources[key.name], Allowed: key.allowed}
		}
	}
	flags := OptionsOf(o.Plan, Source{Name: name, Config: name}, o.NodesGiven)
	look, err := flags.Look(h.Host)
	if err != nil {
		return nil, err
	}
	base, _, err := look(ctx)
	if err != nil {
		return nil, err
	}
	c := base.Config
	if c.Rounds < alarm.First {
		return nil, &configs.Error{Key: "rounds", Value: strconv.Itoa(c.Rounds), Source: given.Sources["rounds"], Allowed: fmt.Sprintf(
			"a whole number from %d, because the alarm compares the newest %s with rounds %d to %d", alarm.First, units.Plural(alarm.Window, "round"),
			alarm.From, alarm.To)}
	}
	tried, err := o.Pilots.rates(c.LearningRate)
	if err != nil {
		return nil, err
	}
	prefix := pilotPrefix
	if model := configs.ModelName(c.Model); model != configs.NanoModel {
		prefix += model + "-"
	}
	axis := configs.Axis{Key: "learning_rate"}
	for _, rate := range tried {
		axis.Values = append(axis.Values, rate)
	}
	var out []Source
	for _, arm := range (configs.Grid{axis}).Arms() {
		pilot := arm.Name(prefix+c.Experiment, longestExperiment)
		arm.Values["experiment"] = pilot
		out = append(out, Source{Name: pilot, Config: name, Values: arm.Values})
	}
	return out, nil
}

// advice reads the pilots from the database and judges them.
func (s *Sweep) advice(ctx context.Context, status sweep.Status) (rates.Advice, error) {
	var evals map[string]store.EvalTotal
	if s.reader != nil {
		var err error
		if evals, err = s.reader.NewestEvals(ctx); err != nil {
			return rates.Advice{}, err
		}
	}
	var pilots []rates.Pilot
	for i, item := range s.items {
		row := status.Rows[i]
		p := rates.Pilot{LearningRate: item.p.Config.LearningRate, Experiment: row.Experiment, Run: row.Run, Done: row.State == store.RunDone,
			Rule: coordinator.AlarmRule(item.p.Config)}
		if row.Run != "" {
			var err error
			if p.Rewards, err = s.rewards(ctx, row.Run); err != nil {
				return rates.Advice{}, err
			}
			gradients, err := s.reader.Gradients(ctx, row.Run)
			if err != nil {
				return rates.Advice{}, err
			}
			p.Gradients = gradients[""]
			if e := evals[row.Run]; e.Questions*e.Generations > 0 {
				pass := float64(e.Correct) / float64(e.Questions*e.Generations)
				p.Pass = &pass
			}
		}
		pilots = append(pilots, p)
	}
	return rates.Judge(pilots), nil
}

// rewards returns the mean rewards over a run's nodes, by round. NaN: no value.
func (s *Sweep) rewards(ctx context.Context, run string) ([]float64, error) {
	bands, err := s.reader.RoundBands(ctx, run, "reward", 0)
	var values []float64
	for _, band := range bands {
		for len(values) < band.Round {
			values = append(values, math.NaN())
		}
		values = append(values, band.Mean)
	}
	return values, err
}

// showPilots chooses the output. With asJSON the only output on stdout is one document at the end.
func (s *Sweep) showPilots(stdout, stderr io.Writer, asJSON bool) {
	if asJSON {
		s.pilots.lines, s.host.Stdout = &lines{out: stdout}, stderr
	}
}
