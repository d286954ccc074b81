package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/internal/fail"
	"github.com/sapo-swarm/swarm/internal/shell"
	"github.com/sapo-swarm/swarm/launcher/study"
	"github.com/sapo-swarm/swarm/metrics/stats"
)

// studyFlags select a study's runs.
type studyFlags struct {
	name, model string
}

func (s *studyFlags) add(f *pflag.FlagSet) {
	f.StringVar(&s.name, "study", "", "use the runs of a `study`, by name or YAML file: "+strings.Join(configs.Studies(), ", "))
	f.StringVar(&s.model, "model", "", "with --study, the `model` that it was run with (default "+configs.NanoModel+")")
}

// ofExperiments are flags that compare named experiments. A study defines its own comparisons.
var ofExperiments = []string{"baseline", "by", "pairs", "min", "top", "gate"}

// apply sets o to the study's comparison, if --study is given.
func (s *studyFlags) apply(o *stats.CompareOptions, names []string, flags *pflag.FlagSet, command string) error {
	if s.name == "" {
		if s.model != "" {
			return fail.Usage(errors.New("--model selects among a study's runs and needs --study"), command+" --study paper --model "+s.model)
		}
		return nil
	}
	again := command + " --study " + shell.Quote(s.name)
	if len(names) > 0 {
		return fail.Usage(fmt.Errorf("--study %s and %q exclude each other: a study has its own experiments", s.name, names[0]), again)
	}
	for _, flag := range ofExperiments {
		if flags.Changed(flag) {
			return fail.Usage(fmt.Errorf("--study %s and --%s exclude each other: a study compares all pairs of its experiments", s.name, flag), again)
		}
	}
	found, err := study.Find(s.name)
	if err != nil {
		return err
	}
	if s.model != "" && found.FixesModels() {
		return &configs.Error{Key: "model", Value: s.model, Allowed: "none: study " + s.name + " fixes its models"}
	}
	compared, err := study.CompareOptions(found, s.model)
	if err != nil {
		return err
	}
	o.Study = compared.Study
	if !flags.Changed("measure") {
		o.Measure = compared.Measure
	}
	return nil
}

// nothingOf returns an error if the study has no runs.
func (s *studyFlags) nothingOf(study *stats.Study) error {
	if study == nil || len(study.Failed)+len(study.Unfinished)+len(study.Explored) > 0 {
		return nil
	}
	for _, arm := range study.Arms {
		if arm.Runs > 0 {
			return nil
		}
	}
	return s.none()
}

func (s *studyFlags) none() error {
	try := "swarm sweep --study " + shell.Quote(s.name)
	if s.model != "" {
		try += " --model " + shell.Quote(s.model)
	}
	return fail.Hint(fmt.Errorf("no run of study %s is recorded", strings.TrimSpace(s.name+" "+s.model)), try)
}
