package study

import (
	"context"
	"fmt"
	"strings"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/internal/charset"
	"github.com/sapo-swarm/swarm/internal/screen"
	"github.com/sapo-swarm/swarm/internal/shell"
	"github.com/sapo-swarm/swarm/internal/table"
	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/metrics/stats/alarm"
	"github.com/sapo-swarm/swarm/metrics/stats/rates"
	"github.com/sapo-swarm/swarm/metrics/stats/sweep"
	"github.com/sapo-swarm/swarm/metrics/store"
)

// RateDocument is the output of swarm tune -o json for pilots of learning rates.
type RateDocument struct {
	Workload string `json:"workload"`
	Config   string `json:"config"` // preset or file
	Model    string `json:"model"`
	Nodes    int    `json:"nodes"`
	Rounds   int    `json:"rounds"` // of each pilot
	Seed     int64  `json:"seed"`
	State    string `json:"state"` // planned, or as in the summary of swarm sweep
	ExitCode int    `json:"exit_code"`
	rates.Advice
	AlarmFactor float64      `json:"alarm_factor"` // the alarm is raised if grad_norm_growth is above it
	Command     string       `json:"command"`      // trains at the advised rate; empty: none is advised
	Lines       []string     `json:"lines"`        // the advice in words
	Sweep       sweep.Status `json:"sweep"`
}

// pilotsPlanned is the state of a dry run's document.
const pilotsPlanned = "planned"

// PilotRounds is the default number of rounds of a pilot. Within it 27 of the 30 recorded runs that collapsed had
// raised the alarm (docs/RESULTS.md, "The alarm").
const PilotRounds = 140

// tellPilots describes the pilots, if any is left to run.
func (s *Sweep) tellPilots(status sweep.Status) {
	if s.pilots == nil || status.Left == 0 {
		return
	}
	var names []string
	for _, item := range s.items {
		names = append(names, configs.FloatName(item.p.Config.LearningRate))
	}
	fmt.Fprintf(s.host.Stdout, "tune: %s of %s each, learning rates %s: %s\n", units.Plural(len(s.items), "pilot"),
		units.Plural(status.Rows[0].Rounds, "round"), units.List(names, "and"), s.trained())
}

// trained describes what all pilots train.
func (s *Sweep) trained() string {
	first := s.items[0]
	return charset.Shown(fmt.Sprintf("%s, %s, %s, seed %d", first.Config, configs.ModelName(first.p.Config.Model), units.Plural(first.nodes(), "node"), first.seed()))
}

// nodes returns the number of nodes of the item's existing or future run.
func (i *Item) nodes() int {
	if i.r.Run != nil {
		return i.r.Run.Nodes
	}
	return i.p.Plan.Nodes
}

// tellAdvice prints the pilots and the advice.
func (s *Sweep) tellAdvice(ctx context.Context, x Summary) error {
	advice, err := s.advice(ctx, x.Status)
	if err != nil {
		return err
	}
	lines := s.adviceLines(advice, x)
	command := ""
	if advice.LearningRate != nil {
		command = s.host.Program + " " + shell.Line(append(s.pilots.Up, "--learning-rate", configs.FloatName(*advice.LearningRate))...)
	}
	if s.pilots.lines != nil {
		first := s.items[0]
		return s.pilots.lines.write(RateDocument{
			Workload: "sapo", Config: first.Config, Model: first.p.Config.Model, Nodes: first.nodes(), Rounds: x.Rows[0].Rounds, Seed: first.seed(),
			State: x.State, ExitCode: x.ExitCode, Advice: advice, AlarmFactor: alarm.WarnFactor, Command: command, Lines: lines, Sweep: x.Status,
		})
	}
	return screen.Print(s.host.Stdout, func(p *table.Page) {
		p.Printf("\ntune %s: %d of %s done: %s\n\n", x.State, x.Done, units.Plural(x.Runs, "pilot"), s.trained())
		p.Table(rateTable(advice))
		p.Printf("\nreward       mean of a pilot's newest %s\n"+
			"behind       the best reward minus this one, with its 95 %% interval over these rounds. A lower reward has an interval above 0\n"+
			"norm growth  mean gradient norm of these rounds, divided by that of rounds %d to %d, and by the growth in the share\n"+
			"             of groups with an advantage, if few had one. The alarm is raised above %g\n\n",
			units.Plural(alarm.Window, "round"), alarm.From, alarm.To, alarm.WarnFactor)
		for _, line := range lines {
			p.Println(line)
		}
		if command != "" {
			p.Println("\nTrain at it:")
			p.Command(command)
		}
		if names := s.recorded(x.Status); names != nil {
			p.Println("\nThe norms by round:")
			p.Command(fmt.Sprintf("%s curve %s --metric grad_norm", s.host.Program, strings.Join(names, " ")))
		}
	})
}

// recorded returns the experiments of the pilots that have begun.
func (s *Sweep) recorded(x sweep.Status) (names []string) {
	for _, row := range x.Rows {
		if row.Run != "" {
			names = append(names, row.Experiment)
		}
	}
	return names
}

// outcomes are the words for a pilot's outcome.
var outcomes = map[string]string{
	rates.Advised: "advised", rates.Possible: "possible", rates.Lower: "lower reward", rates.Alarm: "gradients grow",
	rates.Unknown: "no gradient norm", rates.Unfinished: "unfinished",
}

func rateTable(a rates.Advice) *table.Table {
	t := table.New(
		table.Column{Title: "learning rate"}, table.Column{Title: "reward", Right: true}, table.Column{Title: "behind", Drop: 2},
		table.Column{Title: "pass@1", Right: true, Drop: 3, Optional: true}, table.Column{Title: "norm growth", Right: true},
		table.Column{Title: "alarm", Drop: 1}, table.Column{Title: "outcome"},
	)
	number := func(v *float64, format string) string {
		if v == nil {
			return "–"
		}
		return fmt.Sprintf(format, *v)
	}
	for _, p := range a.Pilots {
		behind, pass, alarm := "–", "", "–"
		if p.Behind != nil && p.BehindLow != nil && p.BehindHigh != nil {
			behind = fmt.Sprintf("%.3f (%.3f to %.3f)", *p.Behind, *p.BehindLow, *p.BehindHigh)
		}
		if p.Pass != nil {
			pass = number(p.Pass, "%.3f")
		}
		switch {
		case p.AlarmRound != nil:
			alarm = fmt.Sprintf("round %d", *p.AlarmRound)
		case p.Growth != nil:
			alarm = "no"
		}
		t.Add(configs.FloatName(p.LearningRate), number(p.Reward, "%.3f"), behind, pass, number(p.Growth, "%.2f"), alarm, outcomes[p.Outcome])
	}
	return t
}

// adviceLines puts the advice into words.
func (s *Sweep) adviceLines(a rates.Advice, x Summary) []string {
	left := 0
	for _, p := range a.Pilots {
		if p.Outcome == rates.Unfinished {
			left++
		}
	}
	lowest, highest := a.Pilots[0].LearningRate, a.Pilots[len(a.Pilots)-1].LearningRate
	switch {
	case left > 0:
		line := fmt.Sprintf("No advice yet: %d of %s %s not finished. The same command continues.", left, units.Plural(x.Runs, "pilot"), units.Verb(left, "be"))
		if x.Failed > 0 && x.State != store.RunStopped {
			line += fmt.Sprintf(" %s logs RUN shows why a pilot failed.", s.host.Program)
		}
		return []string{line}
	case a.LearningRate == nil:
		return []string{fmt.Sprintf("None of these rates is advised: each pilot raised the alarm or has no gradient norm. Try lower ones: --rates %s,%s.",
			configs.FloatName(twoDigits(lowest/9)), configs.FloatName(twoDigits(lowest/3)))}
	}
	lines := []string{fmt.Sprintf("Advice: learning rate %s. It is the highest of these rates without an alarm whose reward is not below the best by more than noise.",
		configs.FloatName(*a.LearningRate))}
	if *a.LearningRate == highest {
		lines = append(lines, "No higher rate was tried. --rates tries others.")
	}
	if p := betterPass(a); p != nil {
		lines = append(lines, fmt.Sprintf("But held-out pass@1 is highest at %s. It has no interval here and does not decide.", configs.FloatName(p.LearningRate)))
	}
	lines = append(lines, "This is a hint, not a verdict: each rate has one seed, and the noise is that between rounds. Another seed may give another order.")
	if rounds := x.Rows[0].Rounds; rounds < PilotRounds {
		lines = append(lines, fmt.Sprintf("%s are few. Of 30 recorded runs of nano that collapsed 27 raised the alarm within 140 rounds, the earliest in round 79. In a trial 80 and 140 rounds gave different advice. "+
			"The same command with --rounds %d extends the pilots.", units.Plural(rounds, "round"), PilotRounds))
	}
	return lines
}

// betterPass returns the pilot without an alarm that has the highest held-out pass@1, if it is above that of the
// advised rate; else nil.
func betterPass(a rates.Advice) *rates.Pilot {
	var best, advised *rates.Pilot
	for i := range a.Pilots {
		p := &a.Pilots[i]
		if p.Outcome == rates.Advised {
			advised = p
		}
		if p.Outcome != rates.Alarm && p.Pass != nil && (best == nil || *p.Pass > *best.Pass) {
			best = p
		}
	}
	if best == nil || advised == nil || advised.Pass == nil || *best.Pass <= *advised.Pass {
		return nil
	}
	return best
}
