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
	f.StringVar(&p.per, "per", stats.PerRounds, "of a study or of named experiments, what is held equal: rounds, completions, tokens, engine-seconds,\nseconds or money")
	f.StringSliceVar(&p.at, "at", nil, "show held-out pass@K after so many `rounds`, completions … of --per: 12.8k,38.4k")
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
			return fail.Usage(fmt.Errorf("--%s compares the arms of a study or named experiments, and there are none", flag),
				"swarm compare 8loc0ext 4loc4ext --per completions")
		}
		if !decidedByPass(o) {
			return fail.Usage(fmt.Errorf("--%s compares held-out pass@K, and the measure is %s", flag, o.Measure),
				"swarm compare "+arms(o, study)+" --measure pass --per "+p.per)
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

// decidedByPass reports whether held-out pass@K decides the study. Only these measures can be compared on an axis.
func decidedByPass(o *stats.CompareOptions) bool {
	return o.Study != nil && (stats.PassOf(o.Measure) > 0 || o.Measure == stats.MeasureAuto || o.Measure == "")
}

// arms returns the arguments that select what is compared.
func arms(o *stats.CompareOptions, study string) string {
	if study != "" {
		return "--study " + shell.Quote(study)
	}
	return strings.Join(o.Study.Experiments(), " ")
}

// asArms makes named experiments the arms of a study without a name, if an axis or horizons are given.
func (p *perFlags) asArms(o *stats.CompareOptions, names []string, flags *pflag.FlagSet) error {
	if o.Study != nil || len(names) == 0 || !flags.Changed("per") && !flags.Changed("at") {
		return nil
	}
	for _, flag := range []string{"by", "min", "top", "gate"} {
		if flags.Changed(flag) {
			return fail.Usage(fmt.Errorf("--per and --at compare all pairs of experiments, and --%s does not fit", flag), "swarm compare without --"+flag)
		}
	}
	d := &stats.StudyDesign{Baseline: o.Baseline}
	if o.Baseline != "" {
		names = append([]string{o.Baseline}, names...)
	}
	for _, name := range names {
		if !slices.Contains(d.Experiments(), name) {
			d.Arms = append(d.Arms, stats.StudyArm{Name: name, Experiment: name})
		}
	}
	o.Study = d
	return nil
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

// armsPer makes two or more named experiments the arms of the report's verdict, as in compare, if the user named an
// axis and pass@1 can decide. With --by the axis is only that of the curves.
func (o *reportOptions) armsPer(flags *pflag.FlagSet) error {
	if o.Study != nil || len(o.Names) == 0 || !flags.Changed("per") || flags.Changed("by") {
		return nil
	}
	named := o.CompareOptions.CompareOptions
	p := perFlags{per: o.Options.Per}
	if err := p.asArms(&named, o.Names, flags); err != nil || len(named.Study.Arms) < 2 || !decidedByPass(&named) {
		return err
	}
	if o.Title == "" {
		o.Title = "Swarm report: " + units.List(named.Study.Experiments(), "and")
	}
	o.CompareOptions.CompareOptions = named
	return perOfReport(&o.CompareOptions.CompareOptions, o.Options.Per, flags)
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
