package study

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/launcher/fit"
	"github.com/sapo-swarm/swarm/launcher/plan"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// Cost is the predicted cost of a study on this host or on a hypothetical GPU: the output of plan --study.
type Cost struct {
	Study       string    `json:"study"`
	Question    string    `json:"question"`
	Model       string    `json:"model"` // empty: the experiments' own
	Device      string    `json:"device"`
	GPUs        []fit.GPU `json:"gpus"`
	Seeds       int       `json:"seeds"`
	Runs        int       `json:"runs"`
	Experiments []RunCost `json:"experiments"`

	Seconds       *float64 `json:"seconds"` // total of all runs, one after another; null: unknown
	PricePerHour  *float64 `json:"price_per_hour"`
	PriceCurrency string   `json:"price_currency"`
	Cost          *float64 `json:"cost"` // null: price or time unknown

	Power Power `json:"power"`
}

// RunCost is the predicted cost of a run of one experiment. Unknown times are null.
type RunCost struct {
	Experiment     string    `json:"experiment"`
	Config         string    `json:"config"` // I/J; for an adaptive experiment, of the first round
	Nodes          int       `json:"nodes"`
	Rule           string    `json:"rule"` // as in Plan
	Why            string    `json:"why"`
	Rounds         int       `json:"rounds"`
	Evaluations    int       `json:"evaluations"`
	Round          *fit.Pace `json:"round"`
	RoundSeconds   *float64  `json:"seconds_per_round"`
	EvalSeconds    *float64  `json:"seconds_per_evaluation"`
	LoadingSeconds *float64  `json:"loading_seconds"` // null: unknown and not included
	Seconds        *float64  `json:"seconds"`         // total of a run
	Source         string    `json:"source"`          // measured, profile or first principles; empty: unknown
	From           string    `json:"from"`            // for people: origin and assumptions of the figures
	Adaptive       bool      `json:"adaptive,omitempty"`
}

// NewCost plans every experiment of a study as its runs would be, and predicts their time and cost. differences are
// those that Power has; nil: the usual ones.
func NewCost(ctx context.Context, h Host, s *Study, p *plan.Options, nodesGiven bool, seeds int, differences []float64, cost plan.Price) (Cost, error) {
	out := Cost{Study: s.Name, Question: s.Question, Seeds: seeds, GPUs: []fit.GPU{}}
	if !s.FixesModels() {
		out.Model = s.model.Name
	}
	sources, err := s.Sources()
	if err != nil {
		return out, err
	}
	reader, err := store.OpenReader(ctx, h.Home.Database())
	if err != nil {
		// no database yet, or an error that a run reports before it starts
		h.Logger.Debug("no measured rates", "reason", err)
		reader = nil
	} else {
		defer reader.Close()
	}
	total, known := 0.0, true
	var warned []string
	for _, source := range sources {
		flags := OptionsOf(*p, source, nodesGiven)
		planned, err := flags.Resolve(ctx, h.Host)
		if err != nil {
			return out, fmt.Errorf("%s: %w", source.Name, err)
		}
		planned.Turn.Release()
		for _, w := range planned.Warnings {
			if !slices.Contains(warned, w) {
				warned = append(warned, w)
				fmt.Fprintln(h.Stderr, "Warning:", w)
			}
		}
		out.Device, out.GPUs = planned.Plan.Device, planned.Plan.GPUs
		x, err := costOfRun(ctx, reader, planned)
		if err != nil {
			return out, err
		}
		if x.Seconds == nil {
			known = false
		} else {
			total += float64(seeds) * *x.Seconds
		}
		out.Experiments = append(out.Experiments, x)
	}
	if out.Power, err = s.newPower(ctx, reader, seeds, differences); err != nil {
		return out, err
	}
	out.Runs = seeds * len(out.Experiments)
	if known {
		out.Seconds = &total
	}
	if cost.PerHour > 0 {
		out.PricePerHour, out.PriceCurrency = &cost.PerHour, cost.Currency
		out.Cost = costOf(out.Seconds, out.PricePerHour)
	}
	return out, nil
}

// costOfRun predicts one run.
func costOfRun(ctx context.Context, reader *store.Reader, p plan.Planned) (RunCost, error) {
	c := p.Config
	out := RunCost{
		Experiment: c.Experiment, Config: fmt.Sprintf("%d/%d", c.NumTrainSamples, c.NumTransplantTrees), Nodes: p.Plan.Nodes, Rule: p.Plan.Rule,
		Why: p.Plan.Why, Rounds: c.Rounds, Evaluations: evaluationCount(c),
		From:     "unknown: no similar run was measured here, and the device's peaks are unknown",
		Adaptive: c.Adaptive(),
	}
	r, err := rateOfModels(ctx, reader, p)
	if err != nil || r == nil {
		return out, err
	}
	nodes := fullest(p.Plan)
	work := roundWork(c, p.Plan.Nodes)
	if c.Beta == 0 {
		work.Flat = r.work.Flat // as many of the own groups as in the measured run
	}
	pace := r.pace.For(r.work, work, r.nodes, nodes)
	round := pace.Seconds()
	completions := evaluationCompletions(c)
	evaluation := r.completion * float64(completions) * float64(nodes) / float64(max(1, r.nodes))
	if r.completion == 0 {
		evaluation = pace.Evaluation(work, completions)
	}
	loading := r.loading * float64(nodes) / float64(max(1, r.nodes))
	seconds := loading + round*float64(c.Rounds) + evaluation*float64(out.Evaluations)
	out.Source, out.From, out.Round = r.source, r.from, &pace
	out.RoundSeconds, out.EvalSeconds, out.Seconds = &round, &evaluation, &seconds
	if r.loading > 0 {
		out.LoadingSeconds = &loading
	}
	if r.source == rateMeasured && (work != r.work || nodes != r.nodes) {
		out.From += ", scaled by I, J, G and nodes"
	}
	if c.Adaptive() {
		out.From += "; assumes the first round's split throughout, without the time to decide splits"
	}
	return out, nil
}

// evaluationCompletions returns the number of completions of one evaluation of a node, those of validation included.
func evaluationCompletions(c configs.Config) int {
	return (c.EvalQuestions + c.ValidationQuestions) * c.EvalGenerations
}

// evaluationCount returns the number of evaluations of a node: before the first round, every eval_every rounds, and
// after the last.
func evaluationCount(c configs.Config) int {
	if c.EvalQuestions == 0 {
		return 0
	}
	n := 2
	if c.EvalEvery > 0 {
		n += (c.Rounds - 1) / c.EvalEvery
	}
	return n
}

// rateOfModels is rateOf for a swarm of one or more models. For several models it returns the mean, weighted by
// their numbers of nodes. It returns nil if one rate is unknown. Nodes that only generate count as the first node that
// trains, although they do not update.
func rateOfModels(ctx context.Context, reader *store.Reader, p plan.Planned) (*rate, error) {
	if len(p.Config.Members) == 0 {
		return rateOf(ctx, reader, p)
	}
	counted := func(node int) int { return max(node, p.Config.Nodes.GenerateOnly) }
	nodes := map[string]int{}
	for k := range p.Plan.Nodes {
		nodes[p.Config.ModelOf(counted(k))]++
	}
	out := rate{work: roundWork(p.Config, p.Plan.Nodes), nodes: fullest(p.Plan)}
	var paces []fit.Pace
	var shares []float64
	var from []string
	for k := range p.Plan.Nodes {
		of := p
		of.Config = p.Config.OfNode(counted(k))
		if nodes[of.Config.Model] == 0 {
			continue
		}
		share := float64(nodes[of.Config.Model]) / float64(p.Plan.Nodes)
		nodes[of.Config.Model] = 0
		of.Model = p.Of(of.Config.Model)
		r, err := rateOf(ctx, reader, of)
		if err != nil || r == nil {
			return nil, err
		}
		work := out.work
		work.Flat = r.work.Flat
		paces, shares = append(paces, r.pace.For(r.work, work, r.nodes, out.nodes)), append(shares, share)
		out.loading += share * r.loading * float64(out.nodes) / float64(max(1, r.nodes))
		from = append(from, of.Config.Model+" "+r.from)
		if rateRank(r.source) > rateRank(out.source) {
			out.source = r.source // the least certain source
		}
	}
	out.pace, out.from = fit.Mean(paces, shares), strings.Join(from, "; ")
	if p.Config.Nodes.GenerateOnly > 0 {
		out.from += "; nodes that only generate count like the others"
	}
	return &out, nil
}

func rateRank(source string) int {
	return slices.Index([]string{"", rateMeasured, rateProfile, rateAssumed}, source)
}
