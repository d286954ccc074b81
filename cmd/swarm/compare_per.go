package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/shell"
	"github.com/sapo-swarm/swarm/internal/units"
	"github.com/sapo-swarm/swarm/metrics/stats"
)

// perFlags select the axis on which a study's runs are compared, and the horizons to show.
type perFlags struct {
	per string
	at  []string
}

// mostHorizons is the largest number of horizons that --at accepts.
const mostHorizons = 12

func (p *perFlags) add(f *pflag.FlagSet) {
	f.StringVar(&p.per, "per", stats.PerRounds, "with --study, what is held equal: rounds, completions, tokens, engine-seconds, seconds or money")
	f.StringSliceVar(&p.at, "at", nil, "with --study, show held-out pass@1 after so many `rounds`, completions … of --per: 12.8k,38.4k")
}

// apply sets the options. o already has its study and measure.
func (p *perFlags) apply(o *stats.CompareOptions, study string, flags *pflag.FlagSet) error {
	if err := checkPer(p.per); err != nil {
		return err
	}
	for _, flag := range []string{"per", "at"} {
		if !flags.Changed(flag) {
			continue
		}
		if o.Study == nil {
			return fail.Usage(fmt.Errorf("--%s is for a study: there is no --study", flag), "swarm compare --study paper --per completions")
		}
		if !decidedByPass(o) {
			return fail.Usage(fmt.Errorf("--%s compares held-out pass@1, and the measure is %s", flag, o.Measure),
				"swarm compare --study "+shell.Quote(study)+" --measure pass --per "+p.per)
		}
	}
	if flags.Changed("per") {
		o.Per = p.per
	}
	if flags.Changed("at") {
		var err error
		o.At, err = horizons(p.at, p.per)
		return err
	}
	return nil
}

// decidedByPass reports whether held-out pass@1 decides the study. Only this measure can be compared on an axis.
func decidedByPass(o *stats.CompareOptions) bool {
	return o.Study != nil && (o.Measure == stats.MeasurePass || o.Measure == stats.MeasureAuto || o.Measure == "")
}

// horizons parses places on an axis, and returns them ascending without duplicates.
func horizons(texts []string, per string) ([]float64, error) {
	var out []float64
	for _, text := range texts {
		x, err := horizon(strings.TrimSpace(text), per)
		if err != nil {
			return nil, err
		}
		out = append(out, x)
	}
	slices.Sort(out)
	out = slices.Compact(out)
	if len(out) == 0 || len(out) > mostHorizons {
		return nil, &configs.Error{Key: "at", Value: strings.Join(texts, ","), Allowed: fmt.Sprintf("1 to %d numbers with commas between them", mostHorizons)}
	}
	return out, nil
}

// horizon parses 12800, 12.8k or 1.2M, and on an axis of time also 90m.
func horizon(text, per string) (float64, error) {
	allowed := "numbers above 0 with commas between them, such as 12800,38400 or 12.8k,1.2M"
	axis, err := stats.AxisOf(per)
	if err != nil {
		return 0, err
	}
	digits, factor := text, 1.0
	switch {
	case strings.HasSuffix(text, "k"):
		digits, factor = strings.TrimSuffix(text, "k"), 1e3
	case strings.HasSuffix(text, "M"):
		digits, factor = strings.TrimSuffix(text, "M"), 1e6
	}
	x, err := strconv.ParseFloat(digits, 64)
	if axis.Unit == "seconds" {
		allowed = "seconds above 0 with commas between them, or times such as 90s,20m,1h30m"
		if d, wrong := time.ParseDuration(text); err != nil && wrong == nil {
			x, factor, err = d.Seconds(), 1, nil
		}
	}
	if x *= factor; err != nil || !units.Finite(x) || x <= 0 {
		return 0, &configs.Error{Key: "at", Value: text, Allowed: allowed}
	}
	return x, nil
}

// perOfReport sets the axis of a study's verdict in a report, if the user named one and pass@1 decides.
func perOfReport(o *stats.CompareOptions, per string, flags *pflag.FlagSet) error {
	if err := checkPer(per); err != nil {
		return err
	}
	if flags.Changed("per") && decidedByPass(o) {
		o.Per = per
	}
	return nil
}
